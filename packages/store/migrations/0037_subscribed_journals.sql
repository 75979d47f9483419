-- The projector publishes an event only if its account has a subscription in its mode. It looks for one while it holds
-- the journal head. So the creation of a subscription locks the journal head too, until it is committed: an event is
-- either recorded before `after_sequence`, or its transaction sees the subscription.
CREATE OR REPLACE FUNCTION webhooks.set_after_sequence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO read.event_heads AS h (account, mode, sequence, last_at)
  VALUES (NEW.account, NEW.mode, 0, date_trunc('milliseconds', clock_timestamp()))
  ON CONFLICT (account, mode) DO UPDATE SET sequence = h.sequence
  RETURNING h.sequence INTO NEW.after_sequence;
  RETURN NEW;
END $$;

-- Deleted subscriptions stay for years, and their number has no limit.
CREATE INDEX endpoints_subscribed ON webhooks.endpoints (account, mode) WHERE deleted_at IS NULL;
