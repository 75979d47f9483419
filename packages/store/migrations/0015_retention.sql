-- Retention: what runs, how far it has come, what it has removed. See docs/decisions/0018.

-- One row a job. A step of a job holds its row, so that there is one at a time, whichever process makes it; what it has removed and where it
-- has come to are written in the same transaction, so that the next one goes on there.
CREATE TABLE command.retention_jobs (
  job             text PRIMARY KEY,
  -- Not before this moment is there a step.
  next_at         timestamptz(3) NOT NULL,
  -- The run under way; NULL between two runs.
  started_at      timestamptz(3),
  position        text,
  removed         bigint NOT NULL DEFAULT 0,
  steps           integer NOT NULL DEFAULT 0,
  -- The last run that came to its end.
  last_started_at  timestamptz(3),
  last_finished_at timestamptz(3),
  last_removed     bigint,
  last_steps       integer,
  -- What is due and has to wait, as a word for people; NULL: nothing.
  held            text,
  -- Steps that failed since the last one that did not, and the code of the last failure.
  failures        integer NOT NULL DEFAULT 0,
  failure         text
);

-- Numbers and texts at rest are sealed under a key of their day, which is destroyed when the day is a year old: on time, in backups too, and
-- whatever lies with them on a page. NULL: under the master key, as rows were before.
ALTER TABLE read.personal_data ADD COLUMN sealing_key text;
ALTER TABLE command.sealing_keys DROP CONSTRAINT sealing_keys_class;
ALTER TABLE command.sealing_keys
  ADD CONSTRAINT sealing_keys_class CHECK (class IN ('otp', 'service', 'report', 'personal'));
CREATE INDEX sealing_keys_due ON command.sealing_keys (destroy_after);
