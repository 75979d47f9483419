-- Backlogs that are read in the order in which they go out, and redeliveries on the operator's request.

-- What is due at the same time goes out in the order of its events. With the place in the index, the next batches of a
-- backlog are found without sorting all of it.
DROP INDEX webhooks.batches_due;
CREATE INDEX batches_due ON webhooks.batches (endpoint_id, next_attempt_at, first_sequence) WHERE status = 'pending';

-- The batch whose failure disabled the subscription: the first to go out once it is enabled.
ALTER TABLE webhooks.endpoints ADD COLUMN disabled_by_batch uuid;

-- A period whose events a subscription is to receive once more. The fan-out finds them here; `after_sequence` is how far
-- it has got in the journal.
CREATE TABLE webhooks.redeliveries (
  id             uuid PRIMARY KEY,
  endpoint_id    uuid NOT NULL REFERENCES webhooks.endpoints ON DELETE CASCADE,
  -- Of the events: created at or after the first, before the second.
  created_from   timestamptz(3) NOT NULL,
  created_before timestamptz(3) NOT NULL,
  after_sequence bigint NOT NULL DEFAULT 0,
  events         bigint NOT NULL DEFAULT 0,
  batches        bigint NOT NULL DEFAULT 0,
  requested_at   timestamptz(3) NOT NULL DEFAULT now(),
  -- When the last of its events was queued.
  finished_at    timestamptz(3),
  CHECK (created_from < created_before)
);
CREATE INDEX redeliveries_open ON webhooks.redeliveries (requested_at) WHERE finished_at IS NULL;

-- An event is in one batch of a subscription, and in one more of each redelivery.
ALTER TABLE webhooks.batches ADD COLUMN redelivery uuid;
CREATE INDEX batches_redelivery ON webhooks.batches (endpoint_id, queued_at) WHERE status = 'pending' AND redelivery IS NOT NULL;
ALTER TABLE webhooks.batch_events DROP CONSTRAINT batch_events_pkey, ADD COLUMN redelivery uuid;
CREATE UNIQUE INDEX batch_events_once ON webhooks.batch_events (endpoint_id, event_id) WHERE redelivery IS NULL;
CREATE UNIQUE INDEX batch_events_again ON webhooks.batch_events (redelivery, event_id) WHERE redelivery IS NOT NULL;

-- The delivery log says which attempts were part of one.
ALTER TABLE webhooks.attempts ADD COLUMN redelivery uuid;
