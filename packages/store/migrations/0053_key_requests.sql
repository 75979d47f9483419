-- Live keys by two persons: one requests a key, another one confirms it and gets it. See docs/decisions/0076.
CREATE TABLE command.key_requests (
  id                    uuid PRIMARY KEY,
  account               uuid NOT NULL REFERENCES command.accounts,
  -- Of the key, as in command.api_keys.
  allowed_addresses     cidr[],
  expires_after_seconds integer,
  requested_by          text NOT NULL,
  requested_at          timestamptz(3) NOT NULL DEFAULT now(),
  -- Nobody can confirm it afterwards.
  expires_at            timestamptz(3) NOT NULL,
  confirmed_by          text,
  confirmed_at          timestamptz(3),
  -- The issued key.
  key                   uuid REFERENCES command.api_keys,
  CONSTRAINT key_requests_two_persons CHECK (confirmed_by <> requested_by)
);
CREATE INDEX key_requests_newest ON command.key_requests (requested_at, id);
