-- The event journal needs no index by time: times never decrease along a journal. See docs/decisions/0083.

-- The sequence number before the first event of a journal that was recorded after a moment, or that of its last event if there
-- is none; NULL without events. Halves the range of sequence numbers until one is left. An event that is not found was deleted
-- with its month, and is older than all others. The condition on the time keeps PostgreSQL from opening earlier months.
CREATE FUNCTION read.sequence_before(of_account uuid, of_mode command.mode, moment timestamptz)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  earlier bigint := 0;
  later bigint;
  middle bigint;
BEGIN
  SELECT max(sequence) + 1 INTO later FROM read.events WHERE account = of_account AND mode = of_mode;
  WHILE earlier + 1 < later LOOP
    middle := (earlier + later) / 2;
    IF EXISTS (SELECT 1 FROM read.events
                WHERE account = of_account AND mode = of_mode AND sequence = middle AND created_at > moment) THEN
      later := middle;
    ELSE
      earlier := middle;
    END IF;
  END LOOP;
  RETURN later - 1;
END $$;

DROP INDEX read.events_created;
