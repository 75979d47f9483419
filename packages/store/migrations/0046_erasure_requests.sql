-- Erasures by two persons: one requests the erasure of a recipient, another one confirms it. See docs/decisions/0071.
CREATE TABLE command.erasure_requests (
  id           uuid PRIMARY KEY,
  recipient    bytea NOT NULL,
  requested_by text NOT NULL,
  reason       text CHECK (reason !~ '\+\d{11}'),
  requested_at timestamptz(3) NOT NULL DEFAULT now(),
  -- Nobody can confirm it afterwards.
  expires_at   timestamptz(3) NOT NULL,
  confirmed_by text,
  confirmed_at timestamptz(3),
  -- The receipt: `command.erasures`.
  erasure      uuid,
  CONSTRAINT erasure_requests_two_persons CHECK (confirmed_by <> requested_by)
);
CREATE UNIQUE INDEX erasure_requests_open ON command.erasure_requests (recipient) WHERE confirmed_at IS NULL;
CREATE INDEX erasure_requests_newest ON command.erasure_requests (requested_at, id);
