-- A redelivery of one event instead of a period. A fan-out of the version before ignores the column, and delivers the
-- other events of the same millisecond too.
ALTER TABLE webhooks.redeliveries ADD COLUMN event_id uuid;
