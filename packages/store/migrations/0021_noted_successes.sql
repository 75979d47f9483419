-- Successes of webhook deliveries that are not recorded yet, for whoever takes the partition over. A row is a group of them, element by element.
-- Unlogged: a crash of PostgreSQL may empty the table, and the fan-out that noted them notes them again. See docs/decisions/0030.
CREATE UNLOGGED TABLE webhooks.noted_successes (
  partition      integer NOT NULL,
  -- Of the owner that noted them; it numbers its notes.
  epoch          bigint NOT NULL,
  number         bigint NOT NULL,
  batch_ids      uuid[] NOT NULL,
  endpoint_ids   uuid[] NOT NULL,
  -- Attempts before this one.
  attempts       integer[] NOT NULL,
  attempt_ids    uuid[] NOT NULL,
  -- Milliseconds since the epoch.
  started_at     bigint[] NOT NULL,
  response_codes integer[] NOT NULL,
  durations_ms   integer[] NOT NULL,
  PRIMARY KEY (partition, epoch, number)
  -- A row of 48 is 4 kB and lives for a tenth of a second: it stays in its page, and as it is.
) WITH (toast_tuple_target = 8160);
ALTER TABLE webhooks.noted_successes
  ALTER COLUMN batch_ids SET STORAGE EXTERNAL,
  ALTER COLUMN endpoint_ids SET STORAGE EXTERNAL,
  ALTER COLUMN attempts SET STORAGE EXTERNAL,
  ALTER COLUMN attempt_ids SET STORAGE EXTERNAL,
  ALTER COLUMN started_at SET STORAGE EXTERNAL,
  ALTER COLUMN response_codes SET STORAGE EXTERNAL,
  ALTER COLUMN durations_ms SET STORAGE EXTERNAL;
