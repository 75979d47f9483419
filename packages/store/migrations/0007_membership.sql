-- What the ledger of acceptances knows beside each message.

-- A code whose publication was not confirmed is not accepted: its price was given back, and a repeat takes it again.
ALTER TABLE command.acceptances ADD COLUMN given_back boolean NOT NULL DEFAULT false;

-- The members of a batch, until the read model has them all.
CREATE INDEX acceptances_batch ON command.acceptances (batch_id, message_id) WHERE batch_id IS NOT NULL;
