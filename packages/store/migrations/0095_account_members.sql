-- Engineers of a client who see its account. See docs/decisions/operations.md#members.
CREATE TABLE command.account_members (
  account   uuid NOT NULL REFERENCES command.accounts (id),
  -- Who it is: issuer and subject of the identity provider, and a name for readers.
  person_id text NOT NULL CHECK (person_id !~ '\+\d{11}'),
  name      text NOT NULL CHECK (name !~ '\+\d{11}'),
  added_at  timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (account, person_id)
);
-- The accounts of a person, at each of their requests.
CREATE INDEX account_members_person ON command.account_members (person_id);

-- The accounts that the identity provider has named at the sign-in.
ALTER TABLE command.operations_sessions ADD COLUMN accounts text[] NOT NULL DEFAULT '{}';
