-- Number ranges to which an account cannot send for a time. Hub staff block and unblock them. See
-- docs/decisions/operations.md#blocked-ranges.
CREATE TABLE command.range_blocks (
  account      uuid NOT NULL REFERENCES command.accounts (id),
  -- The three digits after +7.
  number_range text NOT NULL CHECK (number_range ~ '^9[0-9]{2}$'),
  -- The block ends by itself.
  until        timestamptz(3) NOT NULL,
  reason       text NOT NULL,
  -- The name of the person, for readers. The audit trail has the whole change.
  blocked_by   text NOT NULL,
  blocked_at   timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (account, number_range),
  CONSTRAINT range_blocks_hold_no_number CHECK (reason !~ '\+\d{11}' AND blocked_by !~ '\+\d{11}')
);
