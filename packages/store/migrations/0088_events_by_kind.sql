-- The index of the event journal by type has a hash of account, mode and type instead of the three values. See
-- docs/decisions/queries.md#events-by-type.
CREATE OR REPLACE FUNCTION read.kind_of_event(account uuid, mode command.mode, type text) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN hashtextextended(type, uuid_hash_extended(account, (mode = 'live')::integer));

CREATE INDEX IF NOT EXISTS event_journal_kind ON read.event_journal (read.kind_of_event(account, mode, type), sequence);
DROP INDEX read.events_type;
