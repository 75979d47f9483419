-- The event journal stores the text of a message's event without what all of them share, and what its row has anyway.
-- See docs/decisions/events.md#stored-texts. The table gets a new name. Its former name becomes a view with the texts,
-- which programs of an earlier version read and write, and people may read. Rows stay as they are.

-- The public form of a UUID: 26 digits of Crockford's base32.
CREATE FUNCTION read.public_id(prefix text, id uuid) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT prefix || '_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', substring(bits FROM n * 5 + 1 FOR 5)::integer + 1, 1), '' ORDER BY n)
    FROM (SELECT B'00' || ('x' || replace(id::text, '-', ''))::bit(128) AS bits) AS b, generate_series(0, 25) AS n
$$;

CREATE FUNCTION read.text_of_time(at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- The text of an event from what its row stores: as `bodyOf` of packages/store/src/tables/read/event-bodies.ts.
CREATE FUNCTION read.event_text(id uuid, type text, mode command.mode, created_at timestamptz, body text)
RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN body LIKE '{%' THEN body ELSE
    '{"id":"' || read.public_id('evt', id) || '","object":"event","type":"' || type
    || '","created_at":"' || read.text_of_time(created_at) || '","mode":"' || mode
    || '","data":{"object":{"id":"msg_' || f[1] || '","object":"message","status":"' || s.status
    || '","final":' || (s.status NOT IN ('accepted', 'sent'))::text || ',"class":"' || f[2]
    || '","reason_code":' || coalesce('"' || nullif(f[3], '') || '"', 'null')
    || ',"client_ref":' || coalesce(nullif(f[4], ''), 'null')
    || ',"batch":' || coalesce('"bat_' || nullif(f[5], '') || '"', 'null')
    || ',"template":"' || f[6]
    || '","created_at":"' || read.text_of_time(created_at - f[7]::bigint * interval '1 millisecond')
    || '","parts":' || f[8] || ',"price":{"amount":"' || f[9] || '","currency":"' || f[10] || '"}}}}'
    END
    FROM string_to_array(body, E'\t') AS f,
         (SELECT CASE type WHEN 'message.seen' THEN 'delivered' ELSE substr(type, 9) END AS status) AS s
$$;

ALTER TABLE read.events RENAME TO event_journal;
DO $$
DECLARE
  child name;
BEGIN
  FOR child IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent = 'read.event_journal'::regclass LOOP
    EXECUTE format('ALTER TABLE read.%I RENAME TO %I', child, replace(child, 'events_', 'event_journal_'));
  END LOOP;
END $$;

CREATE VIEW read.events AS
SELECT account, mode, sequence, id, type, created_at, read.event_text(id, type, mode, created_at, body) AS body
  FROM read.event_journal;

-- A projector of an earlier version records an event with its whole text.
CREATE FUNCTION read.record_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO read.event_journal VALUES (NEW.*);
  RETURN NEW;
END $$;
CREATE TRIGGER record INSTEAD OF INSERT ON read.events FOR EACH ROW EXECUTE FUNCTION read.record_event();

-- The same function, for the new name of the table.
CREATE OR REPLACE FUNCTION read.sequence_before(of_account uuid, of_mode command.mode, moment timestamptz)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  earlier bigint := 0;
  later bigint;
  middle bigint;
BEGIN
  SELECT max(sequence) + 1 INTO later FROM read.event_journal WHERE account = of_account AND mode = of_mode;
  WHILE earlier + 1 < later LOOP
    middle := (earlier + later) / 2;
    IF EXISTS (SELECT 1 FROM read.event_journal
                WHERE account = of_account AND mode = of_mode AND sequence = middle AND created_at > moment) THEN
      later := middle;
    ELSE
      earlier := middle;
    END IF;
  END LOOP;
  RETURN later - 1;
END $$;
