-- Attempts at operations for which the person has no role: one line for each person, operation and hour.
CREATE INDEX audit_forbidden ON command.audit (actor, command, at)
  WHERE outcome = 'failed' AND detail ->> 'code' = 'forbidden';
