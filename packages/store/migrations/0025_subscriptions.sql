-- Three signing secrets, a description, resends, and the last period in which a subscription was disabled.

-- The secret before `previous_secret`. Each replaced secret signs until the end of its own transition.
ALTER TABLE webhooks.endpoints
  ADD COLUMN older_secret         bytea,
  ADD COLUMN older_secret_ends_at timestamptz(3),
  -- The client's own note.
  ADD COLUMN description          text,
  -- The last period in which it was disabled. It decides why a batch expired in that period.
  ADD COLUMN last_disabled_at     timestamptz(3),
  ADD COLUMN last_enabled_at      timestamptz(3);

-- Requests to send a batch again. Any process of the fan-out takes one. The row is deleted in the transaction that
-- records the attempt.
CREATE TABLE webhooks.resends (
  -- The id of the attempt that it becomes.
  id           uuid PRIMARY KEY,
  endpoint_id  uuid NOT NULL REFERENCES webhooks.endpoints ON DELETE CASCADE,
  batch_id     uuid NOT NULL,
  -- The attempt in the delivery log that the request names, and its number.
  resend_of    uuid NOT NULL,
  attempt      integer NOT NULL,
  requested_at timestamptz(3) NOT NULL DEFAULT now(),
  claimed_at   timestamptz(3)
);
CREATE INDEX resends_endpoint ON webhooks.resends (endpoint_id);
CREATE INDEX resends_waiting ON webhooks.resends (requested_at) WHERE claimed_at IS NULL;

-- The delivery log says which attempt a resend repeats.
ALTER TABLE webhooks.attempts ADD COLUMN resend_of uuid;
