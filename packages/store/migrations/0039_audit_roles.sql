-- The audit trail also holds the role that allowed an operation, and the reason for which somebody revealed data of a
-- person. Rows of older versions have neither.
ALTER TABLE command.audit
  ADD COLUMN role text,
  ADD COLUMN reason text,
  ADD CONSTRAINT audit_reason_holds_no_number CHECK (reason !~ '\+\d{11}');
