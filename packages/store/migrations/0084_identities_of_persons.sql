-- Who hub staff are: issuer and subject of the identity provider (`iss|sub`), not a display name, which two persons may
-- share and one person may change. Rows of earlier versions have none. See docs/decisions/0106.
ALTER TABLE command.audit
  ADD COLUMN actor_id text,
  -- Whether the run counts for the limit of look-ups of its actor. NULL: it does not.
  ADD COLUMN counted boolean,
  ADD CONSTRAINT audit_actor_id_holds_no_number CHECK (actor_id !~ '\+\d{11}') NOT VALID;
-- The look-ups of a person in the last hour. See docs/decisions/0107.
CREATE INDEX audit_counted ON command.audit (actor_id, at) WHERE counted;
-- Refused attempts: one line for each person, operation, code and hour.
CREATE INDEX audit_attempts ON command.audit (actor_id, command, (detail ->> 'code'), at)
  WHERE outcome = 'failed' AND detail ->> 'code' IN ('forbidden', 'lookup_limit_reached');

-- A session without an identity is over for this version: its person signs in again.
ALTER TABLE command.operations_sessions
  ADD COLUMN actor_id text CHECK (actor_id !~ '\+\d{11}'),
  -- The id token of the sign-in, encrypted: the identity provider wants it for the sign-out.
  ADD COLUMN id_token bytea;

-- NOT VALID: confirmations of earlier versions have no identities, and stay. A program of an earlier version can
-- confirm nothing any more: it does not know who the persons are.
ALTER TABLE command.erasure_requests
  ADD COLUMN requested_by_id text,
  ADD COLUMN confirmed_by_id text,
  DROP CONSTRAINT erasure_requests_two_persons,
  ADD CONSTRAINT erasure_requests_two_identities CHECK (
    (confirmed_by IS NULL AND confirmed_by_id IS NULL AND confirmed_at IS NULL)
    OR coalesce(requested_by_id <> confirmed_by_id, false)) NOT VALID;
ALTER TABLE command.key_requests
  ADD COLUMN requested_by_id text,
  ADD COLUMN confirmed_by_id text,
  DROP CONSTRAINT key_requests_two_persons,
  ADD CONSTRAINT key_requests_two_identities CHECK (
    (confirmed_by IS NULL AND confirmed_by_id IS NULL AND confirmed_at IS NULL)
    OR coalesce(requested_by_id <> confirmed_by_id, false)) NOT VALID;
