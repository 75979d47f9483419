-- The read models: what every GET answers from. Written by the projector only.
CREATE SCHEMA read;

-- Next offset to project. A transaction moves it from what it read to what it has applied, under its epoch,
-- or fails: so a projector that lost its partition without knowing changes nothing.
CREATE TABLE read.checkpoints (
  projection text NOT NULL,
  topic      text NOT NULL,
  partition  integer NOT NULL,
  position   bigint NOT NULL,
  epoch      bigint NOT NULL,
  -- Highest ShardOpened epoch before "position" (log only): claims of a lower epoch behind it are void.
  fence      bigint NOT NULL DEFAULT 0,
  updated_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (projection, topic, partition)
);

-- Lanes and log are read side by side, so a fact can come before its MessageAccepted: then `account` is NULL
-- and the row is not shown yet.
CREATE TABLE read.messages (
  id          uuid PRIMARY KEY,
  account     uuid,
  mode        command.mode,
  class       command.class,
  recipient   bytea,
  template    text,
  sender      text,
  client_ref  text,
  batch_id    uuid,
  parts       smallint,
  price       numeric(12, 2),
  currency    text,
  variables   text[],
  created_at  timestamptz(3),
  updated_at  timestamptz(3) NOT NULL,
  status      text NOT NULL,
  -- accepted 0, sent 1, expired with dlr_timeout_local 2, every other final status 3; it only rises.
  rank        smallint NOT NULL,
  final       boolean NOT NULL,
  reason_code text,
  attempts    smallint NOT NULL DEFAULT 0,
  seen        boolean NOT NULL DEFAULT false
);
CREATE INDEX messages_batch ON read.messages (batch_id, id) WHERE batch_id IS NOT NULL;

-- Every change of status, once: the fact's id is derived from what it reports. Its order is that of the ranks: the
-- clocks of two processes, or one millisecond, may set `at` against it.
CREATE TABLE read.message_history (
  message_id  uuid NOT NULL,
  fact_id     uuid NOT NULL,
  status      text NOT NULL,
  reason_code text,
  at          timestamptz(3) NOT NULL,
  PRIMARY KEY (message_id, fact_id)
);

-- Which message an operator's id belongs to, for reports that match nothing in memory.
CREATE TABLE read.operator_ids (
  operator    text NOT NULL,
  operator_id text NOT NULL,
  message_id  uuid NOT NULL,
  sent_at     timestamptz(3) NOT NULL,
  PRIMARY KEY (operator, operator_id, message_id)
);

-- The one home of numbers and texts: encrypted, for a year. An otp has its number only.
CREATE TABLE read.personal_data (
  message_id uuid PRIMARY KEY,
  recipient  bytea NOT NULL,
  created_at timestamptz(3) NOT NULL,
  sealed     bytea NOT NULL
);
CREATE INDEX personal_data_recipient ON read.personal_data (recipient);

-- Where each account's journal ends. Taking this row is what puts concurrent projectors in line.
CREATE TABLE read.event_heads (
  account  uuid NOT NULL,
  mode     command.mode NOT NULL,
  sequence bigint NOT NULL,
  last_at  timestamptz(3) NOT NULL,
  PRIMARY KEY (account, mode)
);

-- The event journal, dense in `sequence` within an account and mode. `body` is the event exactly as it is served.
CREATE TABLE read.events (
  account    uuid NOT NULL,
  mode       command.mode NOT NULL,
  sequence   bigint NOT NULL,
  id         uuid NOT NULL UNIQUE,
  type       text NOT NULL,
  created_at timestamptz(3) NOT NULL,
  body       text NOT NULL,
  PRIMARY KEY (account, mode, sequence)
);
CREATE INDEX events_created ON read.events (account, mode, created_at, sequence);

-- Recorded events on their way to hub.webhooks.v1.
CREATE TABLE read.event_outbox (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  records    bytea NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now()
);
