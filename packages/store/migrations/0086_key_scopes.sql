-- What an API key may do; NULL: everything, as all keys before. A key with scopes is stored under another hash,
-- which a program of an earlier version does not find. See docs/security.md.
ALTER TABLE command.api_keys
  ADD COLUMN scopes text[],
  ADD CONSTRAINT api_keys_scopes CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['send', 'read', 'manage']);
ALTER TABLE command.key_requests
  -- Of the requested key.
  ADD COLUMN scopes        text[],
  -- Of the issued key, as the confirmation has decided.
  ADD COLUMN issued_scopes text[],
  -- A program of an earlier version must not confirm a key with scopes: it would issue one that may do everything.
  ADD CONSTRAINT key_requests_scopes CHECK (
    (cardinality(scopes) > 0 AND scopes <@ ARRAY['send', 'read', 'manage'])
    AND (scopes IS NULL OR confirmed_at IS NULL OR (issued_scopes IS NOT NULL AND issued_scopes <@ scopes)));
