-- An optional end of life of an API key, and the time of its last use, which lags by some seconds.
ALTER TABLE command.api_keys
  ADD COLUMN expires_at   timestamptz(3),
  ADD COLUMN last_used_at timestamptz(3);
