-- Runs that start runs, one writer per project, snapshots, and what people ask of runs, answers, calls and builds (E1, E22).

ALTER TABLE runs ADD COLUMN state TEXT NOT NULL DEFAULT 'INIT';
ALTER TABLE runs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN code TEXT;
ALTER TABLE runs ADD COLUMN parent BLOB REFERENCES runs (id);
ALTER TABLE runs ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET turn = (SELECT count(*) FROM events e WHERE e.run_id = runs.id AND e.kind = 'turn_started'),
    state = CASE status WHEN 'completed' THEN 'COMPLETE' WHEN 'failed' THEN 'FAILED' WHEN 'cancelled' THEN 'CANCELLED' ELSE 'INIT' END;

ALTER TABLE messages ADD COLUMN tokens INTEGER;
ALTER TABLE messages ADD COLUMN duration_ms INTEGER;
ALTER TABLE tool_calls ADD COLUMN key TEXT;
ALTER TABLE builds ADD COLUMN url TEXT;

-- Claiming reads this table alone: a project belongs to the family that has begun there (epoch), else to that of the lowest `n`.
CREATE TABLE claims_new (
    run_id       BLOB NOT NULL PRIMARY KEY REFERENCES runs (id),
    n            INTEGER NOT NULL, -- that of `runs`
    project_id   BLOB NOT NULL REFERENCES projects,
    root_id      BLOB NOT NULL,    -- the run that a person started; a run of its own family does not wait for it
    epoch        INTEGER NOT NULL, -- raised by each claim; an append under a lower one is fenced
    worker       TEXT,             -- who has the run; nobody: NULL
    claimable_at INTEGER,          -- from when on it can be claimed: the end of the lease; NULL: not before its inbox has a row
    last_seq     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO claims_new SELECT c.run_id, r.n, r.project_id, c.run_id, c.epoch, c.worker, c.claimable_at, c.last_seq
    FROM claims c JOIN runs r ON r.id = c.run_id;
DROP TABLE claims;
ALTER TABLE claims_new RENAME TO claims;
CREATE INDEX claims_of_project ON claims (project_id, n);
CREATE INDEX claims_of_root ON claims (root_id);

CREATE TABLE snapshots (
    run_id BLOB NOT NULL PRIMARY KEY REFERENCES runs (id),
    seq    INTEGER NOT NULL, -- the last event that is in it
    body   BLOB NOT NULL
) STRICT;
