-- What identifies this hub, so that a process with other secrets or servers does not start. See docs/decisions/0100.
CREATE TABLE command.hub_identity (
  kind       text NOT NULL CHECK (kind IN ('master_key', 'number_hash_secret', 'kafka')),
  -- A check value of a secret, which is not the secret; or the id of the Kafka cluster and the prefix of the topics.
  value      text NOT NULL,
  -- Of a master key. True: data may be encrypted with it, so every process needs it. False: it was announced as a
  -- previous key, and no process has used it for new data.
  in_use     boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, value)
);
CREATE UNIQUE INDEX hub_identity_single ON command.hub_identity (kind) WHERE kind <> 'master_key';

-- The processes that run now, with their master keys: a new key may be used when all of them have it.
CREATE TABLE command.hub_processes (
  id          uuid PRIMARY KEY,
  app         text NOT NULL,
  -- Check values; the first one is that of the key that encrypts.
  master_keys text[] NOT NULL,
  seen_at     timestamptz NOT NULL
);
