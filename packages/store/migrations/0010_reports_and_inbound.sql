-- What operators say in their own words, and what recipients write, is sealed under keys of its own.

-- What a key seals is not only a class of messages any more. The column keeps its name, for processes of the version before.
ALTER TABLE command.sealing_keys ALTER COLUMN class TYPE text USING class::text;
ALTER TABLE command.sealing_keys
  ADD CONSTRAINT sealing_keys_class CHECK (class IN ('otp', 'service', 'report'));

-- The newest stop or start word of each recipient that has been applied to command.opt_outs. A START deletes the opt-out, so the
-- order must be remembered beside it: an older STOP that is read again, or told again by its operator, changes nothing.
-- No number and no text, kept without end as the opt-outs are.
CREATE TABLE command.opt_out_words (
  recipient   bytea PRIMARY KEY,
  -- Place in the recipient's partition of the reports; the order of one recipient's words.
  position    bigint NOT NULL,
  received_at timestamptz(3) NOT NULL,
  -- Record ids of the words applied last, newest first.
  recent      text[] NOT NULL
);
