-- What the reconciler of acceptances needs.

-- When a message that had not landed in the read model was published again; NULL: never.
ALTER TABLE command.acceptances ADD COLUMN republished_at timestamptz(3);

-- Codes that were given back: those that landed all the same are charged after all.
CREATE INDEX acceptances_given_back ON command.acceptances (message_id) WHERE given_back;
