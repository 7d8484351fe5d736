-- The first schema, the same in spirit as SQLite's. Ids are UUIDs; times are milliseconds since the Unix epoch; words (status,
-- role, tool, …) are spelled as in the API; free text is escaped, since this database holds no zero character (column.rs).
-- What is changed with it in one call is in the functions below. A later schema is a new file: this one never changes.

-- Active root runs are counted where they are (E1): in the row of the user, in that of the chat, and globally in slots. A row is
-- locked by those alone who share it, and an admission holds a slot for no longer than its commit.
CREATE TABLE users (
    id         UUID NOT NULL PRIMARY KEY,
    owner      BOOLEAN UNIQUE CHECK (owner), -- the one user of an embedded server
    active     BIGINT NOT NULL DEFAULT 0 CHECK (active >= 0),
    created_at BIGINT NOT NULL
) WITH (fillfactor = 80);

CREATE TABLE slots (
    slot   SMALLINT NOT NULL PRIMARY KEY,
    active BIGINT NOT NULL DEFAULT 0 CHECK (active >= 0)
) WITH (fillfactor = 20);
INSERT INTO slots (slot) SELECT generate_series(0, 15);

CREATE TABLE chats (
    id         UUID NOT NULL PRIMARY KEY,
    user_id    UUID NOT NULL REFERENCES users,
    title      TEXT NOT NULL,
    latest_run UUID NOT NULL,
    active     BIGINT NOT NULL DEFAULT 0 CHECK (active >= 0),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX chats_by_use ON chats (user_id, updated_at DESC, id DESC);

CREATE TABLE projects (
    id              UUID NOT NULL PRIMARY KEY,
    chat_id         UUID NOT NULL UNIQUE REFERENCES chats,
    user_id         UUID NOT NULL REFERENCES users,
    slug            TEXT NOT NULL UNIQUE,
    current_version UUID, -- what the preview shows: one atomic switch
    created_at      BIGINT NOT NULL
);

-- `n`, here and below, is the order in which rows came: a wall clock that goes back cannot change it. Runs of a project get
-- theirs under the lock of their user's row, so that a run with a lower one is never seen later than one with a higher.
CREATE TABLE runs (
    n           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          UUID NOT NULL UNIQUE,
    user_id     UUID NOT NULL REFERENCES users,
    chat_id     UUID NOT NULL REFERENCES chats,
    project_id  UUID NOT NULL REFERENCES projects,
    parent      UUID REFERENCES runs (id),
    depth       BIGINT NOT NULL,
    status      TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'INIT',
    turn        BIGINT NOT NULL DEFAULT 0,
    title       TEXT NOT NULL,
    stop_reason TEXT,
    code        TEXT,
    error       TEXT,
    last_seq    BIGINT NOT NULL DEFAULT 0, -- of a run that has ended; until then `claims` has it
    created_at  BIGINT NOT NULL,
    started_at  BIGINT,
    ended_at    BIGINT
) WITH (fillfactor = 80);
CREATE INDEX runs_of_user ON runs (user_id, n);
CREATE INDEX runs_of_chat ON runs (chat_id, n);

-- One row for each run that has not ended. Small and hot: an append touches this table and the log, and a worker that looks
-- for work reads nothing else. No index has a column that an append changes.
CREATE TABLE claims (
    run_id       UUID NOT NULL PRIMARY KEY REFERENCES runs (id),
    n            BIGINT NOT NULL UNIQUE, -- that of `runs`
    project_id   UUID NOT NULL,
    chat_id      UUID NOT NULL,
    user_id      UUID NOT NULL,
    root_id      UUID NOT NULL,   -- the run that a person started; a run of its own family does not wait for it
    slot         SMALLINT,        -- where a root is counted
    epoch        BIGINT NOT NULL, -- raised by each claim; an append under a lower one is fenced
    worker       TEXT,            -- who has the run; nobody: NULL
    holder       BIGINT,          -- whose session it lives and dies with
    claimable_at BIGINT,          -- from when on it can be claimed: the end of the lease; NULL: not before its inbox has a row
    last_seq     BIGINT NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX claims_of_project ON claims (project_id, n);
CREATE INDEX claims_of_root ON claims (root_id);
CREATE INDEX claims_of_holder ON claims (holder) WHERE holder IS NOT NULL;

-- Processes that have this store open. Each holds the advisory lock of its number as long as it lives: a row whose lock is free
-- tells of one that has died.
CREATE TABLE holders (
    holder BIGINT NOT NULL PRIMARY KEY
);

-- The log. No foreign key: an append has found the run's claim already, and this is the one insert that has to be cheap.
CREATE TABLE events (
    run_id  UUID NOT NULL,
    seq     BIGINT NOT NULL CHECK (seq > 0),
    at      BIGINT NOT NULL,
    attempt BIGINT,
    step_id TEXT,
    kind    TEXT NOT NULL,
    payload TEXT NOT NULL, -- the event alone, as JSON and byte by byte; the envelope is added when it is read
    PRIMARY KEY (run_id, seq)
);

-- What doors ask of runs. The number of a row that was answered is never given to another.
CREATE TABLE inbox (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id UUID NOT NULL,
    item   TEXT NOT NULL,
    cancel BOOLEAN NOT NULL,
    at     BIGINT NOT NULL
);
CREATE INDEX inbox_of_run ON inbox (run_id, id);

CREATE TABLE messages (
    n           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          UUID NOT NULL UNIQUE,
    chat_id     UUID NOT NULL REFERENCES chats,
    run_id      UUID NOT NULL REFERENCES runs (id),
    role        TEXT NOT NULL,
    text        TEXT NOT NULL, -- of an answer that is being written: empty, its pieces are in `prose`
    tokens      BIGINT,
    duration_ms BIGINT,
    created_at  BIGINT NOT NULL,
    UNIQUE (run_id, role)
);
CREATE INDEX messages_of_chat ON messages (chat_id, n);

-- Pieces of an answer that is being written, so that each costs its own bytes and not the whole text again.
CREATE TABLE prose (
    run_id UUID NOT NULL,
    seq    BIGINT NOT NULL, -- where the log ended with it
    text   TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE tool_calls (
    n           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      UUID NOT NULL,
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    input       TEXT NOT NULL,
    key         TEXT NOT NULL,
    status      TEXT, -- NULL: not finished
    output      TEXT,
    error       TEXT,
    duration_ms BIGINT,
    UNIQUE (run_id, call_id)
);

CREATE TABLE builds (
    n           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      UUID NOT NULL,
    build_id    TEXT NOT NULL,
    status      TEXT NOT NULL,
    url         TEXT,
    error       TEXT,
    started_at  BIGINT NOT NULL,
    duration_ms BIGINT,
    UNIQUE (run_id, build_id)
);

CREATE TABLE versions (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         UUID NOT NULL UNIQUE,
    project_id UUID NOT NULL REFERENCES projects,
    run_id     UUID NOT NULL REFERENCES runs (id),
    parent     UUID REFERENCES versions (id),
    summary    TEXT NOT NULL,
    files      TEXT NOT NULL, -- SHA-256 of the manifest of its files
    output     TEXT NOT NULL, -- SHA-256 of the manifest of its build's output
    created_at BIGINT NOT NULL
);
CREATE INDEX versions_of_project ON versions (project_id, n);
ALTER TABLE projects ADD FOREIGN KEY (current_version) REFERENCES versions (id);

CREATE TABLE snapshots (
    run_id UUID NOT NULL PRIMARY KEY,
    seq    BIGINT NOT NULL, -- the last event that is in it
    body   BYTEA NOT NULL
);

CREATE TABLE idempotency (
    user_id     UUID NOT NULL REFERENCES users,
    key         TEXT NOT NULL,
    fingerprint BYTEA NOT NULL, -- SHA-256 of what the key was used for
    run_id      UUID NOT NULL REFERENCES runs (id),
    PRIMARY KEY (user_id, key)
);

CREATE TABLE sessions (
    token_sha256 TEXT NOT NULL PRIMARY KEY,
    user_id      UUID NOT NULL REFERENCES users,
    until        BIGINT NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id, until);

-- Each change is one call: one round trip, one transaction, its statements in order. Locks are taken in one order everywhere, so
-- that no two calls wait for each other: families, claims, users, chats, slots; within each by id.

CREATE FUNCTION baton_now() RETURNS BIGINT LANGUAGE sql AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- The number of the lock that keeps a family of runs as it is: no run starts another while a cancel spreads.
CREATE FUNCTION baton_family(root UUID) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(root::text, 0)
$$;

-- Runs that have not ended, with those that they have started.
CREATE FUNCTION baton_kin(runs UUID[]) RETURNS UUID[] LANGUAGE sql STABLE AS $$
    WITH RECURSIVE kin (id, root) AS (
        SELECT c.run_id, c.root_id FROM claims c WHERE c.run_id = ANY (runs)
        UNION SELECT r.id, k.root FROM kin k JOIN claims c ON c.root_id = k.root JOIN runs r ON r.id = c.run_id AND r.parent = k.id
    ) SELECT array_agg(k.id) FROM kin k
$$;

-- Puts an item into the inboxes of runs that have not ended, where it is not there yet: those that have something new.
CREATE FUNCTION baton_tell(told UUID[], p_item TEXT, p_cancel BOOLEAN, p_at BIGINT) RETURNS SETOF UUID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM claims c WHERE c.run_id = ANY (told) ORDER BY c.run_id FOR NO KEY UPDATE;
    RETURN QUERY INSERT INTO inbox (run_id, item, cancel, at)
        SELECT c.run_id, p_item, p_cancel, p_at FROM claims c WHERE c.run_id = ANY (told)
        AND NOT EXISTS (SELECT FROM inbox i WHERE i.run_id = c.run_id AND i.item = p_item)
        ORDER BY c.n RETURNING run_id;
    UPDATE claims c SET claimable_at = 0 WHERE c.run_id = ANY (told) AND c.claimable_at IS NULL;
END $$;

-- A slot with room for one more run, locked; nothing if as many as are allowed are active. Each slot has its share of the limit.
-- Only if none that is free has room, those that others hold are waited for.
CREATE FUNCTION baton_slot(most BIGINT) RETURNS SMALLINT LANGUAGE plpgsql AS $$
DECLARE
    found_slot SMALLINT;
BEGIN
    SELECT s.slot INTO found_slot FROM slots s WHERE s.active < most / 16 + (s.slot < most % 16)::int
    LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN RETURN found_slot; END IF;
    IF (SELECT sum(s.active) >= most FROM slots s) THEN RETURN NULL; END IF;
    PERFORM FROM slots s ORDER BY s.slot FOR NO KEY UPDATE;
    SELECT s.slot INTO found_slot FROM slots s WHERE s.active < most / 16 + (s.slot < most % 16)::int LIMIT 1;
    RETURN found_slot;
END $$;

-- Draws the rows of logs. s: what became of a run, its changes made one; p: pieces of answers; drawn: the rest, in its order.
CREATE FUNCTION baton_draw(
    s_run UUID[], s_status TEXT[], s_stop TEXT[], s_code TEXT[], s_error TEXT[], s_began BIGINT[], s_ended BIGINT[],
    s_touched BIGINT[], s_state TEXT[], s_turn BIGINT[],
    p_run UUID[], p_seq BIGINT[], p_reset BOOLEAN[], p_text TEXT[],
    drawn TEXT
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    d JSONB;
BEGIN
    IF cardinality(s_run) > 0 THEN
        IF cardinality(array_remove(s_touched, NULL)) > 0 THEN
            PERFORM FROM chats h WHERE h.id IN (SELECT c.chat_id FROM claims c WHERE c.run_id = ANY (s_run))
            ORDER BY h.id FOR NO KEY UPDATE;
            UPDATE chats h SET updated_at = greatest(h.updated_at, t.at) FROM (
                SELECT c.chat_id, max(a.at) AS at FROM unnest(s_run, s_touched) a (run, at) JOIN claims c ON c.run_id = a.run
                WHERE a.at IS NOT NULL GROUP BY c.chat_id
            ) t WHERE h.id = t.chat_id;
        END IF;
        UPDATE runs r SET
            status = coalesce(a.status, r.status),
            stop_reason = CASE WHEN a.status IS NULL THEN r.stop_reason ELSE a.stop END,
            code = CASE WHEN a.status IS NULL THEN r.code ELSE a.code END,
            error = CASE WHEN a.status IS NULL THEN r.error ELSE a.error END,
            started_at = coalesce(r.started_at, a.began),
            ended_at = CASE WHEN a.status IS NULL THEN r.ended_at ELSE a.ended END,
            state = coalesce(a.state, r.state),
            turn = coalesce(a.turn, r.turn)
        FROM unnest(s_run, s_status, s_stop, s_code, s_error, s_began, s_ended, s_state, s_turn)
            a (run, status, stop, code, error, began, ended, state, turn)
        WHERE r.id = a.run AND (a.status IS NOT NULL OR a.state IS NOT NULL);
    END IF;
    IF cardinality(p_run) > 0 THEN
        DELETE FROM prose p USING unnest(p_run, p_reset) a (run, reset) WHERE a.reset AND p.run_id = a.run;
        INSERT INTO prose AS p (run_id, seq, text) SELECT * FROM unnest(p_run, p_seq, p_text)
        ON CONFLICT (run_id, seq) DO UPDATE SET text = p.text || excluded.text;
    END IF;
    IF drawn IS NOT NULL THEN
        FOR d IN SELECT jsonb_array_elements(drawn::jsonb) LOOP
            PERFORM baton_draw_one((d->>'run')::uuid, d);
        END LOOP;
    END IF;
END $$;

CREATE FUNCTION baton_draw_one(run UUID, d JSONB) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    CASE d->>'row'
    WHEN 'answered' THEN
        UPDATE messages m SET tokens = (d->>'tokens')::bigint, duration_ms = (d->>'duration_ms')::bigint
        WHERE m.run_id = run AND m.role = 'assistant';
    WHEN 'tool_requested' THEN
        INSERT INTO tool_calls (run_id, call_id, tool, input, key)
        VALUES (run, d->>'call_id', d->>'tool', d->>'input', d->>'key')
        ON CONFLICT (run_id, call_id) DO UPDATE SET tool = excluded.tool, input = excluded.input, key = excluded.key;
    WHEN 'tool_finished' THEN
        UPDATE tool_calls t SET status = d->>'status', output = d->>'output', error = d->>'error',
            duration_ms = (d->>'duration_ms')::bigint
        WHERE t.run_id = run AND t.call_id = d->>'call_id';
    WHEN 'build' THEN
        INSERT INTO builds (run_id, build_id, status, error, started_at, duration_ms)
        VALUES (run, d->>'build_id', d->>'status', d->>'error', (d->>'at')::bigint, (d->>'duration_ms')::bigint)
        ON CONFLICT (run_id, build_id)
        DO UPDATE SET status = excluded.status, error = excluded.error, duration_ms = excluded.duration_ms;
    WHEN 'build_shown' THEN
        UPDATE builds b SET url = d->>'url'
        WHERE b.n = (SELECT max(o.n) FROM builds o WHERE o.run_id = run AND o.status = 'succeeded');
    WHEN 'publish' THEN
        INSERT INTO versions (id, project_id, run_id, parent, summary, files, output, created_at)
        VALUES ((d->>'id')::uuid, (d->>'project_id')::uuid, run, (d->>'parent')::uuid, d->>'summary', d->>'files', d->>'output',
            (d->>'at')::bigint);
        UPDATE projects p SET current_version = (d->>'id')::uuid WHERE p.id = (d->>'project_id')::uuid;
    END CASE;
END $$;

-- Runs have ended: their answers are made whole, the runs that they started are told, their claims and inboxes go, and roots count
-- no longer. The users' rows count them no longer already, and the rows of their chats are locked.
CREATE FUNCTION baton_finish(ended UUID[], item TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    kin CONSTANT UUID[] := baton_kin(ended);
BEGIN
    IF cardinality(kin) > cardinality(ended) THEN
        PERFORM baton_tell(ARRAY(SELECT k FROM unnest(kin) k WHERE k <> ALL (ended)), item, TRUE, 0);
    END IF;
    WITH pieces AS (DELETE FROM prose p WHERE p.run_id = ANY (ended) RETURNING p.run_id, p.seq, p.text)
    UPDATE messages m SET text = w.text
    FROM (SELECT p.run_id, string_agg(p.text, '' ORDER BY p.seq) AS text FROM pieces p GROUP BY p.run_id) w
    WHERE m.run_id = w.run_id AND m.role = 'assistant';
    UPDATE runs r SET last_seq = c.last_seq FROM claims c WHERE c.run_id = ANY (ended) AND r.id = c.run_id;
    DELETE FROM inbox i WHERE i.run_id = ANY (ended);
    UPDATE chats h SET active = h.active - t.roots FROM (
        SELECT c.chat_id, count(*) AS roots FROM claims c WHERE c.run_id = ANY (ended) AND c.slot IS NOT NULL GROUP BY c.chat_id
    ) t WHERE h.id = t.chat_id;
    PERFORM FROM slots s WHERE s.slot IN (SELECT c.slot FROM claims c WHERE c.run_id = ANY (ended))
    ORDER BY s.slot FOR NO KEY UPDATE;
    UPDATE slots s SET active = s.active - t.roots FROM (
        SELECT c.slot, count(*) AS roots FROM claims c WHERE c.run_id = ANY (ended) AND c.slot IS NOT NULL GROUP BY c.slot
    ) t WHERE s.slot = t.slot;
    DELETE FROM claims c WHERE c.run_id = ANY (ended);
END $$;

-- Appends to many runs at once, each of them once, or gives those that are refused and changes nothing: 1 fenced, 2 the log ends
-- elsewhere, 3 a project that is not the run's. a: the appends; e: their events; i: what they answer; f: those that end, and what the
-- runs that they started are told.
CREATE FUNCTION baton_append(
    a_run UUID[], a_epoch BIGINT[], a_after BIGINT[], a_upto BIGINT[], a_project UUID[],
    e_run UUID[], e_seq BIGINT[], e_at BIGINT[], e_attempt BIGINT[], e_step TEXT[], e_kind TEXT[], e_payload TEXT[],
    i_run UUID[], i_id BIGINT[],
    f_run UUID[], f_item TEXT,
    s_run UUID[], s_status TEXT[], s_stop TEXT[], s_code TEXT[], s_error TEXT[], s_began BIGINT[], s_ended BIGINT[],
    s_touched BIGINT[], s_state TEXT[], s_turn BIGINT[],
    p_run UUID[], p_seq BIGINT[], p_reset BOOLEAN[], p_text TEXT[],
    drawn TEXT
) RETURNS TABLE (run UUID, refusal INTEGER, log_end BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    kin CONSTANT UUID[] := CASE WHEN cardinality(f_run) > 0 THEN baton_kin(f_run) END;
BEGIN
    IF cardinality(kin) > cardinality(f_run) THEN
        -- They are told in the end, and their claims are locked in the order of ids too.
        PERFORM FROM claims c WHERE c.run_id = ANY (a_run || kin) ORDER BY c.run_id FOR NO KEY UPDATE;
    END IF;
    RETURN QUERY WITH locked AS MATERIALIZED (
        SELECT c.run_id, c.last_seq, CASE
            WHEN c.epoch <> a.epoch OR c.worker IS NULL THEN 1
            WHEN c.last_seq <> a.after THEN 2
            WHEN a.project <> c.project_id THEN 3
            ELSE 0
        END AS refusal
        FROM unnest(a_run, a_epoch, a_after, a_project) a (run, epoch, after, project) JOIN claims c ON c.run_id = a.run
        ORDER BY c.run_id FOR NO KEY UPDATE OF c
    )
    SELECT a.run, coalesce(l.refusal, 1), coalesce(l.last_seq, 0)
    FROM unnest(a_run) a (run) LEFT JOIN locked l ON l.run_id = a.run WHERE l.refusal IS DISTINCT FROM 0;
    IF FOUND THEN RETURN; END IF;

    UPDATE claims c SET last_seq = a.upto FROM unnest(a_run, a_upto) a (run, upto) WHERE c.run_id = a.run;
    INSERT INTO events (run_id, seq, at, attempt, step_id, kind, payload)
    SELECT * FROM unnest(e_run, e_seq, e_at, e_attempt, e_step, e_kind, e_payload);
    IF cardinality(i_run) > 0 THEN
        DELETE FROM inbox i USING unnest(i_run, i_id) a (run, id) WHERE i.id = a.id AND i.run_id = a.run;
    END IF;
    IF cardinality(f_run) > 0 THEN
        PERFORM FROM users u WHERE u.id IN (SELECT c.user_id FROM claims c WHERE c.run_id = ANY (f_run))
        ORDER BY u.id FOR NO KEY UPDATE;
        UPDATE users u SET active = u.active - t.roots FROM (
            SELECT c.user_id, count(*) AS roots FROM claims c WHERE c.run_id = ANY (f_run) AND c.slot IS NOT NULL GROUP BY c.user_id
        ) t WHERE u.id = t.user_id;
    END IF;
    IF cardinality(s_run) > 0 OR cardinality(p_run) > 0 OR drawn IS NOT NULL THEN
        PERFORM baton_draw(s_run, s_status, s_stop, s_code, s_error, s_began, s_ended, s_touched, s_state, s_turn,
            p_run, p_seq, p_reset, p_text, drawn);
    END IF;
    IF cardinality(f_run) > 0 THEN
        PERFORM baton_finish(f_run, f_item);
    END IF;
END $$;

-- Admits a run, or refuses and leaves nothing. Verdicts: 0 admitted; 1 the first answer to this key; 2 the key was used for
-- another message; 3 no such chat; 4 a project of another chat; 5 the parent is over; 6 too deep; 7 the project is busy;
-- 8, 9, 10 the limit of the chat, the user, the server.
CREATE FUNCTION baton_admit(
    p_user UUID, p_run UUID, p_chat UUID, p_project UUID, p_at BIGINT,
    p_new BOOLEAN, p_title TEXT, p_slug TEXT, p_run_title TEXT, p_request TEXT, p_asked UUID, p_answer UUID,
    p_key TEXT, p_fingerprint BYTEA, p_most BIGINT[], p_alone BOOLEAN, p_ends BOOLEAN,
    p_parent UUID, p_epoch BIGINT, p_root UUID, p_deepest BIGINT,
    e_at BIGINT[], e_attempt BIGINT[], e_step TEXT[], e_kind TEXT[], e_payload TEXT[],
    s_run UUID[], s_status TEXT[], s_stop TEXT[], s_code TEXT[], s_error TEXT[], s_began BIGINT[], s_ended BIGINT[],
    s_touched BIGINT[], s_state TEXT[], s_turn BIGINT[],
    t_run UUID[], t_seq BIGINT[], t_reset BOOLEAN[], t_text TEXT[],
    drawn TEXT
) RETURNS TABLE (verdict INTEGER, run UUID, chat UUID, message UUID, project UUID) LANGUAGE plpgsql AS $$
DECLARE
    counted CONSTANT BOOLEAN := p_parent IS NULL AND NOT p_ends;
    parent_depth BIGINT;
    made_user BOOLEAN := FALSE;
    user_active BIGINT;
    chat_active BIGINT;
    in_slot SMALLINT;
    number BIGINT;
BEGIN
    verdict := 0;
    IF p_parent IS NOT NULL AND p_root IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(baton_family(p_root));
        SELECT r.depth INTO parent_depth FROM claims c JOIN runs r ON r.id = c.run_id
        WHERE c.run_id = p_parent AND c.epoch = p_epoch AND c.worker IS NOT NULL FOR NO KEY UPDATE OF c;
    END IF;
    -- Whoever begins at the same moment with a user that is new waits here for the other.
    LOOP
        SELECT u.active INTO user_active FROM users u WHERE u.id = p_user FOR NO KEY UPDATE;
        EXIT WHEN FOUND OR NOT p_new;
        INSERT INTO users (id, created_at) VALUES (p_user, p_at) ON CONFLICT DO NOTHING;
        made_user := made_user OR FOUND;
    END LOOP;

    IF p_key IS NOT NULL THEN
        SELECT CASE WHEN i.fingerprint = p_fingerprint THEN 1 ELSE 2 END, r.id, r.chat_id, m.id, r.project_id
        INTO verdict, run, chat, message, project
        FROM idempotency i JOIN runs r ON r.id = i.run_id JOIN messages m ON m.run_id = r.id AND m.role = 'user'
        WHERE i.user_id = p_user AND i.key = p_key;
        verdict := coalesce(verdict, 0);
    END IF;
    IF verdict = 0 AND p_new THEN
        -- None, unless the id is taken, which is refused below.
        chat_active := coalesce((SELECT h.active FROM chats h WHERE h.id = p_chat), 0);
    ELSIF verdict = 0 THEN
        SELECT CASE WHEN p.id = p_project THEN 0 ELSE 4 END, h.active INTO verdict, chat_active
        FROM chats h JOIN projects p ON p.chat_id = h.id WHERE h.id = p_chat AND h.user_id = p_user FOR NO KEY UPDATE OF h;
        verdict := coalesce(verdict, 3);
    END IF;
    IF verdict = 0 AND p_parent IS NOT NULL THEN
        verdict := CASE
            WHEN parent_depth IS NULL OR EXISTS (SELECT FROM inbox i WHERE i.run_id = p_parent AND i.cancel) THEN 5
            WHEN parent_depth >= p_deepest THEN 6
            ELSE 0
        END;
    END IF;
    IF verdict = 0 AND p_alone THEN
        SELECT 7, c.run_id INTO verdict, run FROM claims c WHERE c.project_id = p_project ORDER BY c.n LIMIT 1;
        verdict := coalesce(verdict, 0);
    END IF;
    IF verdict = 0 AND counted THEN
        verdict := CASE WHEN chat_active >= p_most[1] THEN 8 WHEN user_active >= p_most[2] THEN 9 ELSE 0 END;
        IF verdict = 0 THEN
            in_slot := baton_slot(p_most[3]);
            IF in_slot IS NULL THEN verdict := 10; END IF;
        END IF;
    END IF;
    IF verdict <> 0 THEN
        IF made_user THEN DELETE FROM users u WHERE u.id = p_user; END IF;
        RETURN NEXT;
        RETURN;
    END IF;

    IF p_new THEN
        INSERT INTO chats (id, user_id, title, latest_run, active, created_at, updated_at)
        VALUES (p_chat, p_user, p_title, p_run, counted::int, p_at, p_at);
        INSERT INTO projects (id, chat_id, user_id, slug, created_at) VALUES (p_project, p_chat, p_user, p_slug, p_at);
    ELSE
        UPDATE chats h SET latest_run = p_run, active = h.active + counted::int, updated_at = greatest(h.updated_at, p_at)
        WHERE h.id = p_chat;
    END IF;
    INSERT INTO runs (id, user_id, chat_id, project_id, parent, depth, status, title, created_at)
    VALUES (p_run, p_user, p_chat, p_project, p_parent, coalesce(parent_depth + 1, 0), 'queued', p_run_title, p_at)
    RETURNING n INTO number;
    INSERT INTO claims (run_id, n, project_id, chat_id, user_id, root_id, slot, epoch, claimable_at, last_seq)
    VALUES (p_run, number, p_project, p_chat, p_user, coalesce(p_root, p_run), in_slot, 0, 0, cardinality(e_at));
    INSERT INTO messages (id, chat_id, run_id, role, text, created_at)
    VALUES (p_asked, p_chat, p_run, 'user', p_request, p_at), (p_answer, p_chat, p_run, 'assistant', '', p_at);
    INSERT INTO events (run_id, seq, at, attempt, step_id, kind, payload)
    SELECT p_run, e.seq, e.at, e.attempt, e.step, e.kind, e.payload
    FROM unnest(e_at, e_attempt, e_step, e_kind, e_payload) WITH ORDINALITY e (at, attempt, step, kind, payload, seq);
    IF p_key IS NOT NULL THEN
        INSERT INTO idempotency (user_id, key, fingerprint, run_id) VALUES (p_user, p_key, p_fingerprint, p_run);
    END IF;
    IF counted THEN
        UPDATE users u SET active = u.active + 1 WHERE u.id = p_user;
        UPDATE slots s SET active = s.active + 1 WHERE s.slot = in_slot;
    END IF;
    PERFORM baton_draw(s_run, s_status, s_stop, s_code, s_error, s_began, s_ended, s_touched, s_state, s_turn,
        t_run, t_seq, t_reset, t_text, drawn);
    IF p_ends THEN PERFORM baton_finish(ARRAY[p_run], NULL); END IF;
    run := p_run;
    chat := p_chat;
    message := p_asked;
    project := p_project;
    RETURN NEXT;
END $$;

-- Ends the claims of processes that are gone: nobody holds the lock of their number any more. Not at once after the server has
-- begun, when those that live have not yet taken theirs again.
CREATE FUNCTION baton_reap(mine BIGINT, grace_ms BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    gone BIGINT;
BEGIN
    IF pg_postmaster_start_time() > clock_timestamp() - grace_ms * interval '1 millisecond' THEN RETURN; END IF;
    FOR gone IN SELECT h.holder FROM holders h WHERE h.holder <> mine LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(gone);
        -- Those that somebody has locked are in the middle of a change; the next look finds them.
        UPDATE claims c SET worker = NULL, holder = NULL, claimable_at = 0 WHERE c.run_id IN (
            SELECT o.run_id FROM claims o WHERE o.holder = gone FOR NO KEY UPDATE SKIP LOCKED
        );
        DELETE FROM holders h WHERE h.holder = gone AND NOT EXISTS (SELECT FROM claims c WHERE c.holder = gone);
    END LOOP;
END $$;

-- Takes runs that can be claimed, oldest first; if stopped, only those that were told to stop. A project belongs to the family that
-- has begun there, else to that of the oldest run. The claim that says so is kept from ending meanwhile, since the next family's
-- turn would come with that.
CREATE FUNCTION baton_claim(
    p_worker TEXT, mine BIGINT, grace_ms BIGINT, most BIGINT, stopped BOOLEAN, now_ms BIGINT, lease_ms BIGINT
) RETURNS TABLE (run UUID, held_under BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    moment CONSTANT BIGINT := coalesce(now_ms, baton_now());
    found UUID[];
BEGIN
    PERFORM baton_reap(mine, grace_ms);
    SELECT array_agg(f.run_id) INTO found FROM (
        SELECT c.run_id FROM claims c WHERE c.claimable_at <= moment
        AND (NOT stopped OR EXISTS (SELECT FROM inbox i WHERE i.run_id = c.run_id AND i.cancel)) AND (
            c.root_id = (SELECT o.root_id FROM claims o WHERE o.project_id = c.project_id ORDER BY o.epoch = 0, o.n LIMIT 1)
            -- What was stopped before it began does not wait for its turn, since it changes nothing.
            OR c.epoch = 0 AND EXISTS (SELECT FROM inbox i WHERE i.run_id = c.run_id AND i.cancel)
        )
        ORDER BY c.n LIMIT most FOR NO KEY UPDATE SKIP LOCKED
    ) f;
    IF found IS NULL THEN RETURN; END IF;
    -- Looked at once more: what has ended since is not an owner any more, and what is locked now stays one.
    SELECT array_agg(f.run_id) INTO found FROM (
        SELECT c.run_id FROM claims c JOIN claims owner ON owner.run_id = (
            SELECT o.run_id FROM claims o WHERE o.project_id = c.project_id ORDER BY o.epoch = 0, o.n LIMIT 1
        )
        WHERE c.run_id = ANY (found) AND (
            c.root_id = owner.root_id
            OR c.epoch = 0 AND EXISTS (SELECT FROM inbox i WHERE i.run_id = c.run_id AND i.cancel)
        )
        FOR KEY SHARE OF owner SKIP LOCKED
    ) f;
    IF found IS NULL THEN RETURN; END IF;
    RETURN QUERY WITH taken AS (
        UPDATE claims c SET worker = p_worker, holder = mine, epoch = c.epoch + 1, claimable_at = moment + lease_ms
        WHERE c.run_id = ANY (found) RETURNING c.n, c.run_id, c.epoch
    )
    SELECT t.run_id, t.epoch FROM taken t ORDER BY t.n;
END $$;

-- Lengthens leases; gives the claims that are held.
CREATE FUNCTION baton_renew(a_run UUID[], a_epoch BIGINT[], now_ms BIGINT, lease_ms BIGINT)
RETURNS TABLE (run UUID, held_under BIGINT) LANGUAGE sql AS $$
    WITH locked AS MATERIALIZED (
        SELECT c.run_id, c.epoch FROM claims c JOIN unnest(a_run, a_epoch) a (run, epoch) ON c.run_id = a.run
        WHERE c.epoch = a.epoch AND c.worker IS NOT NULL ORDER BY c.run_id FOR NO KEY UPDATE OF c
    )
    UPDATE claims c SET claimable_at = coalesce(now_ms, baton_now()) + lease_ms
    FROM locked l WHERE c.run_id = l.run_id RETURNING l.run_id, l.epoch
$$;

-- Gives a run back. One that waits for somebody is parked until its inbox has a row.
CREATE FUNCTION baton_release(p_run UUID, p_epoch BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM claims c WHERE c.run_id = p_run AND c.epoch = p_epoch AND c.worker IS NOT NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    -- Looked at under the lock, which whoever puts a row into the inbox holds as well.
    UPDATE claims c SET worker = NULL, holder = NULL, claimable_at = CASE
        WHEN (SELECT r.status FROM runs r WHERE r.id = p_run) = 'waiting'
            AND NOT EXISTS (SELECT FROM inbox i WHERE i.run_id = p_run) THEN NULL
        ELSE 0
    END WHERE c.run_id = p_run;
END $$;

-- Puts an item into the inbox of a run that has not ended, and a cancel into those of the runs that it started. Gives the runs
-- that have something new.
CREATE FUNCTION baton_put_inbox(p_run UUID, p_item TEXT, p_cancel BOOLEAN, p_at BIGINT) RETURNS SETOF UUID
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT p_cancel THEN
        RETURN QUERY SELECT baton_tell(ARRAY[p_run], p_item, p_cancel, p_at);
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(baton_family(c.root_id)) FROM claims c WHERE c.run_id = p_run;
    RETURN QUERY SELECT baton_tell(baton_kin(ARRAY[p_run]), p_item, p_cancel, p_at);
END $$;
