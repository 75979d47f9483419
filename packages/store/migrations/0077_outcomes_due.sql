-- The messages whose outcomes are still to be written to the topic hub.message-outcomes.v1. See docs/decisions/0077.
CREATE TABLE read.outcomes_due (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  created_at  timestamptz NOT NULL DEFAULT now(),
  -- The messages that got a final status in one transaction.
  message_ids uuid[],
  -- Instead of them: all final messages with an id behind this one. It moves with each step.
  after       uuid,
  CHECK ((message_ids IS NULL) <> (after IS NULL))
);
