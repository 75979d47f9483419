-- The weight of an account among those whose messages wait for an operator. NULL means 1.
ALTER TABLE command.account_settings
  ADD COLUMN weight integer CHECK (weight BETWEEN 1 AND 100);
