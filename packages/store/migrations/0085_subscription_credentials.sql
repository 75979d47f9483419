-- Static headers and a client certificate of a subscription. See docs/decisions/webhooks.md.
ALTER TABLE webhooks.endpoints
  -- In the order sent. Empty: it has none.
  ADD COLUMN header_names text[] NOT NULL DEFAULT '{}',
  -- Names and values in turn, encrypted under the master key with the endpoint's id as additional data.
  ADD COLUMN headers bytea,
  -- Certificate and private key, encrypted in the same way.
  ADD COLUMN client_certificate bytea,
  -- What clients see of the certificate.
  ADD COLUMN client_certificate_fingerprint text,
  ADD COLUMN client_certificate_not_after timestamptz(3);
