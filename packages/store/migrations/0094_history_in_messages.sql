-- The history of a message follows from its row. See docs/decisions/read-models.md#history. A status only rises in rank
-- (`rank` of the domain), so each rank has one time: `created_at` that of `accepted`, and the following ones.
ALTER TABLE read.messages
  -- The time of `sent`.
  ADD COLUMN sent_at timestamptz(3),
  -- The time of `expired` with `dlr_timeout_local`, which a late report can replace.
  ADD COLUMN timed_out_at timestamptz(3),
  -- The time of any other final status: `status` with `reason_code`.
  ADD COLUMN final_at timestamptz(3);

-- What earlier versions have written. Retention drops its months, which keep their names, with those of the messages.
ALTER TABLE read.message_history RENAME TO earlier_history;

-- The history of all messages, one row for each change of the status. Programs of an earlier version write it, too.
CREATE VIEW read.message_history AS
SELECT m.id AS message_id, NULL::uuid AS fact_id, c.status, c.reason_code, c.at
  FROM read.messages m
 CROSS JOIN LATERAL (VALUES ('accepted', NULL, m.created_at), ('sent', NULL, m.sent_at),
                            ('expired', 'dlr_timeout_local', m.timed_out_at), (m.status, m.reason_code, m.final_at)) AS c (status, reason_code, at)
 WHERE c.at IS NOT NULL
UNION ALL
SELECT message_id, fact_id, status, reason_code, at FROM read.earlier_history WHERE status <> 'accepted';

-- A projector of an earlier version writes the row of the message first, and the change of its status then.
CREATE FUNCTION read.record_status_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status = 'sent' THEN
    UPDATE read.messages SET sent_at = NEW.at WHERE id = NEW.message_id;
  ELSIF NEW.reason_code = 'dlr_timeout_local' THEN
    UPDATE read.messages SET timed_out_at = NEW.at WHERE id = NEW.message_id;
  ELSIF NEW.status <> 'accepted' THEN
    UPDATE read.messages SET final_at = NEW.at WHERE id = NEW.message_id;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER record INSTEAD OF INSERT ON read.message_history FOR EACH ROW EXECUTE FUNCTION read.record_status_change();

-- Rows that wait for their acceptance: the projector reads their changes from the row.
WITH moved AS (
  DELETE FROM read.earlier_history h USING read.messages m WHERE m.id = h.message_id AND m.account IS NULL RETURNING h.*)
INSERT INTO read.message_history SELECT * FROM moved;

-- A rebuild writes the rows of messages only, and its swap removes what earlier versions have written about them.

CREATE OR REPLACE FUNCTION command.extend_rebuild() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  live record;
  low timestamptz;
BEGIN
  FOR live IN
    SELECT p.relname AS parent, c.relname AS child, right(c.relname, 6) AS month, a.attname AS key
      FROM pg_inherits i
      JOIN pg_class p ON p.oid = i.inhparent
      JOIN pg_class c ON c.oid = i.inhrelid
      JOIN pg_partitioned_table t ON t.partrelid = p.oid
      JOIN pg_attribute a ON a.attrelid = p.oid AND a.attnum = t.partattrs[0]
     WHERE p.oid IN ('read.messages'::regclass, 'read.operator_ids'::regclass)
       AND c.relname ~ '_[0-9]{6}$'
     ORDER BY 1, 2
  LOOP
    CONTINUE WHEN to_regclass(format('rebuild.%I', live.child)) IS NOT NULL;
    low := to_timestamp(live.month || '01 00:00:00 +00', 'YYYYMMDD HH24:MI:SS TZH');
    PERFORM command.ensure_months(format('rebuild.%I', live.parent)::regclass, low, 1);
    EXECUTE format(
      'ALTER TABLE rebuild.%I ADD CONSTRAINT rebuilt_month CHECK (%I >= %L AND %I < %L)',
      live.child, live.key, command.uuid_floor(low), live.key,
      command.uuid_floor((low AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC'));
  END LOOP;
END $$;

-- Makes empty tables like the live ones, in a schema beside theirs.
CREATE OR REPLACE FUNCTION command.open_rebuild() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  live record;
BEGIN
  PERFORM command.close_rebuild();
  CREATE SCHEMA rebuild;
  FOR live IN
    SELECT c.relname AS name, a.attname AS key, array_to_string(c.reloptions, ', ') AS options
      FROM pg_class c
      LEFT JOIN pg_partitioned_table t ON t.partrelid = c.oid
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = t.partattrs[0]
     WHERE c.oid = ANY (ARRAY['read.checkpoints', 'read.messages', 'read.operator_ids', 'read.batches',
                              'read.daily_stats', 'read.hourly_stats', 'read.range_stats', 'read.charges']::regclass[])
  LOOP
    EXECUTE format('CREATE TABLE rebuild.%1$I (LIKE read.%1$I INCLUDING ALL)', live.name)
         || CASE WHEN live.key IS NULL THEN '' ELSE format(' PARTITION BY RANGE (%I)', live.key) END
         || CASE WHEN live.options IS NULL THEN '' ELSE format(' WITH (%s)', live.options) END;
    IF live.key IS NOT NULL THEN
      EXECUTE format('CREATE TABLE rebuild.%1$I PARTITION OF rebuild.%2$I DEFAULT', live.name || '_default', live.name);
    END IF;
  END LOOP;
  PERFORM command.extend_rebuild();
END $$;

-- Puts the rebuilt tables where the live ones are: months from `rows_since` on (operators' ids from `ids_since` on), and the sums as a whole. To
-- be called with all of the live tables locked. What was there before lies in a schema of its own until it is dropped.
CREATE OR REPLACE FUNCTION command.swap_rebuilt(rows_since timestamptz, ids_since timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  live record;
BEGIN
  CREATE SCHEMA rebuild_before;
  FOR live IN
    SELECT p.relname AS parent, c.relname AS child, pg_get_expr(c.relpartbound, c.oid) AS bounds, w.since, w.rebuilt
      FROM (VALUES ('read.messages'::regclass, rows_since, true), ('read.earlier_history'::regclass, rows_since, false),
                   ('read.operator_ids'::regclass, ids_since, true)) AS w (parent, since, rebuilt)
      JOIN pg_inherits i ON i.inhparent = w.parent
      JOIN pg_class p ON p.oid = i.inhparent
      JOIN pg_class c ON c.oid = i.inhrelid
     WHERE c.relname ~ '_[0-9]{6}$'
       AND (w.since IS NULL OR right(c.relname, 6) >= to_char(w.since AT TIME ZONE 'UTC', 'YYYYMM'))
     ORDER BY 1, 2
  LOOP
    EXECUTE format('ALTER TABLE read.%I DETACH PARTITION read.%I', live.parent, live.child);
    EXECUTE format('ALTER TABLE read.%I SET SCHEMA rebuild_before', live.child);
    CONTINUE WHEN NOT live.rebuilt;
    -- A month that has been made since: its rows are in the default partition here.
    PERFORM command.require(to_regclass(format('rebuild.%I', live.child)) IS NOT NULL);
    EXECUTE format('ALTER TABLE rebuild.%I DETACH PARTITION rebuild.%I', live.parent, live.child);
    EXECUTE format('ALTER TABLE rebuild.%I SET SCHEMA read', live.child);
    EXECUTE format('ALTER TABLE read.%I ATTACH PARTITION read.%I %s', live.parent, live.child, live.bounds);
    EXECUTE format('ALTER TABLE read.%I DROP CONSTRAINT rebuilt_month', live.child);
  END LOOP;
  -- Hardly ever more than a few rows: what belongs to no month.
  DELETE FROM read.messages_default WHERE rows_since IS NULL OR id >= command.uuid_floor(rows_since);
  DELETE FROM read.message_history_default WHERE rows_since IS NULL OR message_id >= command.uuid_floor(rows_since);
  DELETE FROM read.operator_ids_default WHERE ids_since IS NULL OR message_id >= command.uuid_floor(ids_since);
  INSERT INTO read.messages_default SELECT * FROM rebuild.messages_default;
  INSERT INTO read.operator_ids_default
  SELECT * FROM rebuild.operator_ids_default WHERE ids_since IS NULL OR message_id >= command.uuid_floor(ids_since);
  ALTER TABLE read.batches SET SCHEMA rebuild_before;
  ALTER TABLE rebuild.batches SET SCHEMA read;
  ALTER TABLE read.daily_stats SET SCHEMA rebuild_before;
  ALTER TABLE rebuild.daily_stats SET SCHEMA read;
  ALTER TABLE read.hourly_stats SET SCHEMA rebuild_before;
  ALTER TABLE rebuild.hourly_stats SET SCHEMA read;
  ALTER TABLE read.range_stats SET SCHEMA rebuild_before;
  ALTER TABLE rebuild.range_stats SET SCHEMA read;
END $$;
