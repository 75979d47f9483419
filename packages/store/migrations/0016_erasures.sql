-- Erasure of a person on request. See docs/decisions/0019.

-- A row a request: what is to be forgotten, how far that has come, and, for good, what was removed. No number, ever.
CREATE TABLE command.erasures (
  id           uuid PRIMARY KEY,
  recipient    bytea NOT NULL,
  requested_at timestamptz(3) NOT NULL,
  -- Messages accepted before this are concerned. The projector stores no number of theirs any more, whatever it reads again.
  before       timestamptz(3) NOT NULL,
  -- What has been removed so far.
  personal_data bigint NOT NULL DEFAULT 0,
  acceptances   bigint NOT NULL DEFAULT 0,
  sealing_keys  bigint NOT NULL DEFAULT 0,
  -- Of the walk under way through the ledger: the message that it has come to.
  position     uuid,
  -- When nothing of it was left to be read; sealed copies of what was under way remain in the topics until the last key of that time is gone.
  cleared_at   timestamptz(3),
  sealed_until timestamptz(3),
  finished_at  timestamptz(3)
);
CREATE INDEX erasures_recipient ON command.erasures (recipient, before);
CREATE UNIQUE INDEX erasures_open ON command.erasures (recipient) WHERE finished_at IS NULL;

-- What operators and recipients say is sealed under keys that belong to a share of the recipients, so that forgetting one of them does not
-- take everybody's words away. NULL: of everybody's, as keys were before.
ALTER TABLE command.sealing_keys ADD COLUMN share smallint;
CREATE INDEX sealing_keys_share ON command.sealing_keys (share) WHERE share IS NOT NULL;
