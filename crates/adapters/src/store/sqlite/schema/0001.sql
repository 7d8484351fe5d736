-- The first schema. Ids are 16 bytes, big endian, so that they sort by creation time; times are milliseconds since the Unix
-- epoch; words (status, role, tool, …) are spelled as in the API. A later schema is a new file: this one never changes.

CREATE TABLE users (
    id         BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    owner      INTEGER UNIQUE CHECK (owner = 1), -- the one user of an embedded server
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE chats (
    id         BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL REFERENCES users,
    title      TEXT NOT NULL,
    latest_run BLOB REFERENCES runs (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX chats_by_use ON chats (user_id, updated_at DESC, id DESC);

CREATE TABLE projects (
    id              BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    chat_id         BLOB NOT NULL UNIQUE REFERENCES chats,
    user_id         BLOB NOT NULL REFERENCES users,
    slug            TEXT NOT NULL UNIQUE,
    current_version BLOB REFERENCES versions (id), -- what the preview shows: one atomic switch
    created_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `n`, here and below, is the order in which rows came: a wall clock that goes back cannot change it.
CREATE TABLE runs (
    n           INTEGER PRIMARY KEY,
    id          BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    user_id     BLOB NOT NULL REFERENCES users,
    chat_id     BLOB NOT NULL REFERENCES chats,
    project_id  BLOB NOT NULL REFERENCES projects,
    status      TEXT NOT NULL,
    title       TEXT NOT NULL,
    stop_reason TEXT,
    error       TEXT,
    last_seq    INTEGER NOT NULL, -- of a run that has ended; until then `claims` has it
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER
) STRICT;
CREATE INDEX runs_of_user ON runs (user_id, n);
CREATE INDEX runs_of_chat ON runs (chat_id, n);

-- One row for each run that has not ended. Small and hot: an append touches this table and the log, and a worker that looks
-- for work reads nothing else.
CREATE TABLE claims (
    run_id       BLOB NOT NULL PRIMARY KEY REFERENCES runs (id),
    epoch        INTEGER NOT NULL, -- raised by each claim; an append under a lower one is fenced
    worker       TEXT,             -- who has the run; nobody: NULL
    claimable_at INTEGER,          -- from when on it can be claimed: the end of the lease; NULL: not before its inbox has a row
    last_seq     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Active runs of a chat, a user and the server (the 16 zero bytes), so that admission reads three rows (E1). No row: none.
CREATE TABLE counters (
    scope  TEXT NOT NULL CHECK (scope IN ('chat', 'user', 'global')),
    id     BLOB NOT NULL,
    active INTEGER NOT NULL CHECK (active >= 0),
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;

-- The log. No foreign key: an append has found the run's claim already, and this is the one insert that has to be cheap.
CREATE TABLE events (
    run_id  BLOB NOT NULL,
    seq     INTEGER NOT NULL CHECK (seq > 0),
    at      INTEGER NOT NULL,
    step_id TEXT,
    attempt INTEGER,
    kind    TEXT NOT NULL,
    payload TEXT NOT NULL, -- the event alone, as JSON; the envelope is added when it is read
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

-- What doors ask of runs. AUTOINCREMENT: the number of a row that was answered is never given to another.
CREATE TABLE inbox (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id BLOB NOT NULL REFERENCES runs (id),
    item   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    UNIQUE (run_id, item)
) STRICT;

CREATE TABLE messages (
    n          INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    chat_id    BLOB NOT NULL REFERENCES chats,
    run_id     BLOB NOT NULL REFERENCES runs (id),
    role       TEXT NOT NULL,
    text       TEXT NOT NULL, -- of an answer that is being written: empty, its pieces are in `prose`
    created_at INTEGER NOT NULL,
    UNIQUE (run_id, role)
) STRICT;
CREATE INDEX messages_of_chat ON messages (chat_id, n);

-- Pieces of an answer that is being written, so that each costs its own bytes and not the whole text again.
CREATE TABLE prose (
    run_id BLOB NOT NULL,
    seq    INTEGER NOT NULL, -- where the log ended with it
    text   TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_calls (
    n           INTEGER PRIMARY KEY,
    run_id      BLOB NOT NULL REFERENCES runs (id),
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    input       TEXT NOT NULL,
    status      TEXT, -- NULL: not finished
    output      TEXT,
    error       TEXT,
    duration_ms INTEGER,
    UNIQUE (run_id, call_id)
) STRICT;

CREATE TABLE builds (
    n           INTEGER PRIMARY KEY,
    run_id      BLOB NOT NULL REFERENCES runs (id),
    build_id    TEXT NOT NULL,
    status      TEXT NOT NULL,
    error       TEXT,
    started_at  INTEGER NOT NULL,
    duration_ms INTEGER,
    UNIQUE (run_id, build_id)
) STRICT;

CREATE TABLE versions (
    n          INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    project_id BLOB NOT NULL REFERENCES projects,
    run_id     BLOB NOT NULL REFERENCES runs (id),
    parent     BLOB REFERENCES versions (id),
    summary    TEXT NOT NULL,
    files      TEXT NOT NULL, -- SHA-256 of the manifest of its files
    output     TEXT NOT NULL, -- SHA-256 of the manifest of its build's output
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX versions_of_project ON versions (project_id, n);

CREATE TABLE idempotency (
    user_id     BLOB NOT NULL REFERENCES users,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL, -- SHA-256 of what the key was used for
    run_id      BLOB NOT NULL REFERENCES runs (id),
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    token_sha256 TEXT NOT NULL PRIMARY KEY,
    user_id      BLOB NOT NULL REFERENCES users,
    until        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of_user ON sessions (user_id, until);
