-- What command-api needs beside the ledger: batches, spend, hub-wide settings, idempotency keys.

-- Written with the flush (or flushes) of the batch's elements. `sealed_at` is set when the outcome is known, together with
-- the outbox row of `BatchSealed`; a sweeper seals what a crash left open.
CREATE TABLE command.batches (
  id         uuid PRIMARY KEY,
  account    uuid NOT NULL,
  mode       command.mode NOT NULL,
  total      integer NOT NULL,
  accepted   integer NOT NULL DEFAULT 0,
  duplicate  integer NOT NULL DEFAULT 0,
  rejected   integer NOT NULL DEFAULT 0,
  created_at timestamptz(3) NOT NULL,
  sealed_at  timestamptz(3)
);
CREATE INDEX batches_open ON command.batches (created_at) WHERE sealed_at IS NULL;

-- What an account has spent in a calendar month (UTC) in live mode: taken by the flush that accepts, given back for an `otp`
-- that was not published and for what is not billed. Rows are locked in the order of (account, period).
CREATE TABLE command.spend_periods (
  account        uuid NOT NULL,
  -- First day of the month.
  period         date NOT NULL,
  spent          numeric(18, 2) NOT NULL DEFAULT 0,
  -- `account.spend_threshold` has been recorded for the period.
  threshold_told boolean NOT NULL DEFAULT false,
  PRIMARY KEY (account, period)
) WITH (fillfactor = 50);

-- Settings of the whole hub: one row.
CREATE TABLE command.hub_settings (
  only_row      boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Messages a day (UTC), all accounts and modes together; NULL means no limit.
  daily_limit   integer CHECK (daily_limit >= 0),
  -- Nothing new is accepted before this moment: a stop by hand.
  stopped_until timestamptz(3)
);
INSERT INTO command.hub_settings DEFAULT VALUES;

-- A key in progress has a lease, a stored one an answer.
CREATE TABLE command.idempotency_keys (
  account     uuid NOT NULL,
  mode        command.mode NOT NULL,
  key         text NOT NULL,
  -- SHA-256 over method, path with query and body.
  fingerprint bytea NOT NULL,
  lease_token uuid,
  lease_until timestamptz(3),
  -- The ids that the request was about to use, so that its repeat uses the same.
  message_ids uuid[],
  status      smallint,
  headers     jsonb,
  -- The body as it was sent, encrypted (purpose `idempotent-answer`): it may hold a secret.
  answer      bytea,
  created_at  timestamptz(3) NOT NULL DEFAULT now(),
  expires_at  timestamptz(3) NOT NULL,
  PRIMARY KEY (account, mode, key)
);
-- What is encrypted does not compress.
ALTER TABLE command.idempotency_keys ALTER COLUMN answer SET STORAGE EXTERNAL;
CREATE INDEX idempotency_keys_expiry ON command.idempotency_keys (expires_at);
