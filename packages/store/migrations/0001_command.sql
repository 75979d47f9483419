-- What command-api writes: accounts and what they may use, the ledger of what was accepted, the outbox.
CREATE SCHEMA command;
CREATE TYPE command.mode AS ENUM ('live', 'test');
CREATE TYPE command.class AS ENUM ('otp', 'service');

CREATE TABLE command.accounts (
  id         uuid PRIMARY KEY,
  name       text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now()
);

-- Settings in force for an account in a mode; NULL means the default of the contract.
CREATE TABLE command.account_settings (
  account                uuid NOT NULL REFERENCES command.accounts,
  mode                   command.mode NOT NULL,
  api_rps                integer CHECK (api_rps > 0),
  batch_max              integer CHECK (batch_max > 0),
  flood_pause_seconds    integer CHECK (flood_pause_seconds >= 0),
  flood_per_hour         integer CHECK (flood_per_hour > 0),
  flood_per_day          integer CHECK (flood_per_day > 0),
  spend_limit            numeric(14, 2),
  soft_threshold_percent integer CHECK (soft_threshold_percent BETWEEN 1 AND 100),
  price_otp              numeric(12, 2),
  price_service          numeric(12, 2),
  PRIMARY KEY (account, mode)
);

-- The key itself is shown once; its SHA-256 is what is kept.
CREATE TABLE command.api_keys (
  id                uuid PRIMARY KEY,
  account           uuid NOT NULL REFERENCES command.accounts,
  mode              command.mode NOT NULL,
  hash              bytea NOT NULL UNIQUE,
  last_four         text NOT NULL,
  allowed_addresses cidr[],
  created_at        timestamptz(3) NOT NULL DEFAULT now(),
  revoked_at        timestamptz(3)
);

CREATE TABLE command.senders (
  id           uuid PRIMARY KEY,
  account      uuid NOT NULL REFERENCES command.accounts,
  mode         command.mode NOT NULL,
  name         text NOT NULL,
  registration jsonb,
  status       text NOT NULL CHECK (status IN ('pending', 'registered', 'declined')),
  reason       text,
  created_at   timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (account, mode, name)
);

CREATE TABLE command.templates (
  id         uuid PRIMARY KEY,
  account    uuid NOT NULL REFERENCES command.accounts,
  mode       command.mode NOT NULL,
  name       text NOT NULL,
  class      command.class NOT NULL,
  sender     text NOT NULL,
  body       text NOT NULL,
  language   text,
  status     text NOT NULL CHECK (status IN ('pending_moderation', 'approved', 'declined')),
  reason     text,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (account, mode, name),
  FOREIGN KEY (account, mode, sender) REFERENCES command.senders (account, mode, name)
);

-- One row per used client_ref, for three years. It is the guard that makes a repeat a repeat.
CREATE TABLE command.client_refs (
  account    uuid NOT NULL,
  mode       command.mode NOT NULL,
  client_ref text NOT NULL,
  message_id uuid NOT NULL,
  created_at timestamptz(3) NOT NULL,
  PRIMARY KEY (account, mode, client_ref)
) PARTITION BY HASH (account, mode, client_ref);
DO $$ BEGIN
  FOR i IN 0..15 LOOP
    EXECUTE format('CREATE TABLE command.client_refs_%s PARTITION OF command.client_refs FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i);
  END LOOP;
END $$;

-- What was accepted, until the projector has it: reads of a message not yet projected, and the reconciler.
-- Message ids are UUIDv7, so a range of ids is a range of time; days are dropped, not deleted.
CREATE TABLE command.acceptances (
  message_id  uuid NOT NULL PRIMARY KEY,
  account     uuid NOT NULL,
  mode        command.mode NOT NULL,
  class       command.class NOT NULL,
  recipient   bytea NOT NULL,
  to_masked   text NOT NULL,
  template    text NOT NULL,
  sender      text NOT NULL,
  client_ref  text,
  batch_id    uuid,
  parts       smallint NOT NULL,
  price       numeric(12, 2) NOT NULL,
  currency    text NOT NULL,
  variables   text[] NOT NULL,
  created_at  timestamptz(3) NOT NULL,
  expires_at  timestamptz(3) NOT NULL,
  -- Only for class service: an otp payload is never stored.
  sealing_key text,
  sealed      bytea
) PARTITION BY RANGE (message_id);
CREATE TABLE command.acceptances_default PARTITION OF command.acceptances DEFAULT;

-- The smallest UUIDv7 of a moment.
CREATE FUNCTION command.uuid_floor(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;

-- Makes the daily partitions of the acceptances from today (UTC) on; safe to repeat, and for several at once.
CREATE FUNCTION command.ensure_acceptance_days(days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  d date;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('command.ensure_acceptance_days'));
  FOR i IN 0..days - 1 LOOP
    d := (now() AT TIME ZONE 'UTC')::date + i;
    IF to_regclass(format('command.acceptances_%s', to_char(d, 'YYYYMMDD'))) IS NULL THEN
      EXECUTE format(
        'CREATE TABLE command.acceptances_%s PARTITION OF command.acceptances FOR VALUES FROM (%L) TO (%L)',
        to_char(d, 'YYYYMMDD'),
        command.uuid_floor(d::timestamp AT TIME ZONE 'UTC'),
        command.uuid_floor((d + 1)::timestamp AT TIME ZONE 'UTC'));
    END IF;
  END LOOP;
END $$;
SELECT command.ensure_acceptance_days(3);

-- Encoded records on their way to Kafka; a row goes when the bus has acknowledged all of it.
CREATE TABLE command.outbox (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  records    bytea NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now()
);

-- Short-lived keys that seal payloads in the log, wrapped by the master key. A destroyed key makes every
-- sealed copy unreadable.
CREATE TABLE command.sealing_keys (
  id            text PRIMARY KEY,
  class         command.class NOT NULL,
  wrapped       bytea NOT NULL,
  created_at    timestamptz(3) NOT NULL DEFAULT now(),
  usable_until  timestamptz(3) NOT NULL,
  destroy_after timestamptz(3) NOT NULL
);

CREATE TABLE command.opt_outs (
  recipient  bytea PRIMARY KEY,
  source     text NOT NULL CHECK (source IN ('inbound', 'operator', 'import')),
  created_at timestamptz(3) NOT NULL DEFAULT now()
);
