-- Subscription commands, trial deliveries, and events that no message tells.

-- A deleted subscription is gone for everybody at once; its batches and attempts, of which there may be millions, go
-- behind that in small steps. `cleared_at`: when nothing of it was left.
ALTER TABLE webhooks.endpoints ADD COLUMN deleted_at timestamptz(3), ADD COLUMN cleared_at timestamptz(3);
CREATE INDEX endpoints_to_clear ON webhooks.endpoints (id) WHERE deleted_at IS NOT NULL AND cleared_at IS NULL;

-- Trial deliveries that are asked for or under way, one for a subscription at a time. Any process of the fan-out takes
-- one; the row goes in the transaction that records the attempt.
CREATE TABLE webhooks.trials (
  endpoint_id  uuid PRIMARY KEY REFERENCES webhooks.endpoints ON DELETE CASCADE,
  -- What the attempt will be called.
  id           uuid NOT NULL,
  requested_at timestamptz(3) NOT NULL DEFAULT now(),
  claimed_at   timestamptz(3)
);
CREATE INDEX trials_waiting ON webhooks.trials (requested_at) WHERE claimed_at IS NULL;

-- Events about other things than messages, on their way into the journal: whoever makes such a thing happen writes the
-- event in the same transaction, and a projector gives it its place. `object` is what `data.object` shows.
CREATE TABLE command.event_inbox (
  place      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         uuid NOT NULL UNIQUE,
  account    uuid NOT NULL,
  mode       command.mode NOT NULL,
  type       text NOT NULL,
  object     json NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now()
);
