-- The client address of the last use of an API key. It is removed one year after that use.
ALTER TABLE command.api_keys ADD COLUMN last_used_from inet;
