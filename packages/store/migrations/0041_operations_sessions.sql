-- Sessions of hub staff at the operations API. See docs/decisions/0069.
CREATE TABLE command.operations_sessions (
  -- SHA-256 of the token that the browser has.
  token_hash   bytea PRIMARY KEY,
  -- The sign-in or the login link that created the session. None creates two.
  login_id     text NOT NULL UNIQUE,
  -- As in the audit trail.
  name         text NOT NULL CHECK (name !~ '\+\d{11}'),
  roles        text[] NOT NULL,
  created_at   timestamptz(3) NOT NULL DEFAULT now(),
  -- With a precision of a minute.
  last_used_at timestamptz(3) NOT NULL DEFAULT now(),
  ended_at     timestamptz(3)
);
