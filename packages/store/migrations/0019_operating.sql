-- What the people who run the hub do, and what they have found out about an account. See docs/hubctl.md.

-- The audit trail of hubctl. A run leaves a row before it changes or reads anything and another one when it has ended, so that nothing is done
-- without a trace, whatever becomes of the process. A recipient is named by their hash, never by their number.
CREATE TABLE command.audit (
  place     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run       uuid NOT NULL,
  at        timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  actor     text NOT NULL,
  -- The words of the command: `keys issue`.
  command   text NOT NULL,
  arguments jsonb NOT NULL,
  outcome   text NOT NULL CHECK (outcome IN ('begun', 'done', 'failed')),
  -- Of a run that has ended: what came of it, such as the id of what was made; the code of a failure.
  detail    jsonb,
  -- The commands leave numbers out. Should one forget to, its line is refused, and with it the command.
  CONSTRAINT audit_holds_no_number CHECK (concat(actor, arguments, detail) !~ '\+\d{11}')
);
CREATE UNIQUE INDEX audit_begun ON command.audit (run) WHERE outcome = 'begun';
CREATE UNIQUE INDEX audit_ended ON command.audit (run) WHERE outcome <> 'begun';

-- Lines are added and stay as they are.
CREATE FUNCTION command.keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit trail is only added to' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON command.audit
  FOR EACH STATEMENT EXECUTE FUNCTION command.keep_audit();
REVOKE UPDATE, DELETE, TRUNCATE ON command.audit FROM PUBLIC, CURRENT_USER;

-- Accounts whose integration was certified, by the checklist of docs/hubctl.md: they may have live keys.
CREATE TABLE command.certifications (
  account    uuid PRIMARY KEY REFERENCES command.accounts,
  granted_at timestamptz(3) NOT NULL DEFAULT now(),
  granted_by text NOT NULL,
  -- What somebody has confirmed, of the points that the hub cannot see for itself.
  confirmed  text[] NOT NULL
);
