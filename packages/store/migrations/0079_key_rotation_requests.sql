-- Rotations of live keys by two persons. See docs/decisions/0081.
ALTER TABLE command.key_requests
  -- The key that the requested one replaces; NULL: the requested key replaces none.
  ADD COLUMN replaces        uuid REFERENCES command.api_keys,
  -- How long both keys work after the confirmation.
  ADD COLUMN overlap_seconds integer,
  -- When the replaced key ends, as the confirmation has decided.
  ADD COLUMN replaced_ends_at timestamptz(3),
  ADD CONSTRAINT key_requests_rotation CHECK (
    (replaces IS NULL) = (overlap_seconds IS NULL)
    -- A program of an earlier version must not confirm a rotation: it would not end the old key.
    AND (replaces IS NULL OR confirmed_at IS NULL OR replaced_ends_at IS NOT NULL));
