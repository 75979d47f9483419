-- Subscriptions and their deliveries.
CREATE SCHEMA webhooks;

CREATE TABLE webhooks.endpoints (
  id                      uuid PRIMARY KEY,
  account                 uuid NOT NULL REFERENCES command.accounts,
  mode                    command.mode NOT NULL,
  url                     text NOT NULL,
  -- Empty: all types.
  event_types             text[] NOT NULL DEFAULT '{}',
  status                  text NOT NULL DEFAULT 'enabled' CHECK (status IN ('enabled', 'disabled_by_failures')),
  -- The secret, encrypted under the master key with the endpoint's id as additional data.
  secret                  bytea NOT NULL,
  previous_secret         bytea,
  secret_rotation_ends_at timestamptz(3),
  consecutive_failures    integer NOT NULL DEFAULT 0,
  first_failure_at        timestamptz(3),
  disabled_at             timestamptz(3),
  disabled_reason         text,
  -- Set by the first success after failures: batches that were scheduled before it are due at once. NULL again with
  -- the next failure.
  backlog_released_at     timestamptz(3),
  created_at              timestamptz(3) NOT NULL DEFAULT now(),
  -- Where the account's journal ended when the subscription was created: it receives what lies behind, and nothing
  -- else. Set by the trigger below.
  after_sequence          bigint NOT NULL DEFAULT 0
);
CREATE INDEX endpoints_account ON webhooks.endpoints (account, mode, id);

-- The boundary of a new subscription is a place in the journal, not a time: places are dense and taken under a lock,
-- so that no clock decides whether an event is missed. An event whose transaction has not committed yet lies behind.
CREATE FUNCTION webhooks.set_after_sequence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.after_sequence := coalesce(
    (SELECT sequence FROM read.event_heads WHERE account = NEW.account AND mode = NEW.mode), 0);
  RETURN NEW;
END $$;
CREATE TRIGGER endpoints_after_sequence BEFORE INSERT ON webhooks.endpoints
  FOR EACH ROW EXECUTE FUNCTION webhooks.set_after_sequence();

-- Next offset of hub.webhooks.v1 that some subscription of the partition has still to flush.
CREATE TABLE webhooks.positions (
  partition integer PRIMARY KEY,
  position  bigint NOT NULL,
  epoch     bigint NOT NULL
);

CREATE TABLE webhooks.batches (
  id              uuid PRIMARY KEY,
  endpoint_id     uuid NOT NULL REFERENCES webhooks.endpoints ON DELETE CASCADE,
  partition       integer NOT NULL,
  -- Journal sequence of the first event: the order in which a backlog drains.
  first_sequence  bigint NOT NULL,
  event_count     smallint NOT NULL,
  -- The exact bytes that are signed and sent.
  body            bytea NOT NULL,
  status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'succeeded', 'failed')),
  attempts        integer NOT NULL DEFAULT 0,
  -- How many of them came before their time because another batch had succeeded.
  early_attempts  integer NOT NULL DEFAULT 0,
  queued_at       timestamptz(3) NOT NULL,
  -- When next_attempt_at was decided.
  scheduled_at    timestamptz(3) NOT NULL,
  -- While pending: the next attempt, or the end of the retry window.
  next_attempt_at timestamptz(3)
);
CREATE INDEX batches_due ON webhooks.batches (endpoint_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX batches_backlog ON webhooks.batches (endpoint_id, first_sequence) WHERE status = 'pending';

-- An event is in one batch of a subscription, whatever is read twice.
CREATE TABLE webhooks.batch_events (
  endpoint_id uuid NOT NULL REFERENCES webhooks.endpoints ON DELETE CASCADE,
  event_id    uuid NOT NULL,
  batch_id    uuid NOT NULL,
  position    smallint NOT NULL,
  PRIMARY KEY (endpoint_id, event_id)
);
CREATE INDEX batch_events_batch ON webhooks.batch_events (batch_id, position);

CREATE TABLE webhooks.attempts (
  id              uuid PRIMARY KEY,
  endpoint_id     uuid NOT NULL REFERENCES webhooks.endpoints ON DELETE CASCADE,
  batch_id        uuid NOT NULL,
  attempt         integer NOT NULL,
  status          text NOT NULL CHECK (status IN ('succeeded', 'failed')),
  response_code   integer,
  duration_ms     integer NOT NULL,
  reason          text,
  trial           boolean NOT NULL DEFAULT false,
  created_at      timestamptz(3) NOT NULL,
  next_attempt_at timestamptz(3)
);
CREATE INDEX attempts_endpoint ON webhooks.attempts (endpoint_id, id DESC);
