-- Sums over messages: batches, charges, daily statistics. Like the rest of `read` written by the projector only, each in
-- the transaction that changes the messages it sums up.

-- A message was handed to an operator at least once, whatever became of it.
ALTER TABLE read.messages ADD COLUMN handed_over boolean NOT NULL DEFAULT false;

-- A row begins with the first of a batch's messages or with its seal, whichever is read first: the seal has a key of its
-- own, so it may be read by another projector than the messages. Until the seal is read, its columns are NULL.
CREATE TABLE read.batches (
  id          uuid PRIMARY KEY,
  account     uuid NOT NULL,
  mode        command.mode NOT NULL,
  -- From the seal: elements of the request, and what became of them at acceptance.
  created_at  timestamptz(3),
  sealed_at   timestamptz(3),
  total       integer,
  accepted    integer,
  duplicate   integer,
  rejected    integer,
  -- From the messages: how many have been projected, how many of those are final, and those by their status now.
  members     integer NOT NULL DEFAULT 0,
  final       integer NOT NULL DEFAULT 0,
  delivered   integer NOT NULL DEFAULT 0,
  undelivered integer NOT NULL DEFAULT 0,
  -- Status `rejected`; the contract's count adds the refusals at acceptance.
  rejected_by_operator integer NOT NULL DEFAULT 0,
  expired     integer NOT NULL DEFAULT 0,
  -- Sealed, and every accepted message final. It becomes true once, with the event `batch.completed`.
  closed      boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70);

-- What live messages cost, kept apart from them and for good: a row a charge, a row a reversal, never changed.
CREATE TABLE read.charges (
  message_id uuid NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('charge', 'reversal')),
  account    uuid NOT NULL,
  -- First day of the calendar month (UTC) of acceptance, of a reversal too.
  period     date NOT NULL,
  -- Never negative: a reversal is subtracted.
  amount     numeric(12, 2) NOT NULL,
  currency   text NOT NULL,
  created_at timestamptz(3) NOT NULL,
  PRIMARY KEY (message_id, kind)
);
CREATE INDEX charges_period ON read.charges (account, period);

-- Messages by the day (UTC) of their acceptance: `accepted` all of them, `sent` all ever handed over, the other counts by
-- their status now, `price` as charged in the end.
CREATE TABLE read.daily_stats (
  day         date NOT NULL,
  account     uuid NOT NULL,
  mode        command.mode NOT NULL,
  class       command.class NOT NULL,
  template    text NOT NULL,
  currency    text NOT NULL,
  accepted    integer NOT NULL,
  sent        integer NOT NULL,
  delivered   integer NOT NULL,
  undelivered integer NOT NULL,
  rejected    integer NOT NULL,
  expired     integer NOT NULL,
  parts       bigint NOT NULL,
  price       numeric(18, 2) NOT NULL,
  PRIMARY KEY (account, mode, day, class, template, currency)
) WITH (fillfactor = 50);
