-- Number ranges: the three digits after +7 of a recipient's number. See docs/decisions/read-models.md#statistics.

-- NULL for messages of earlier versions.
ALTER TABLE read.messages ADD COLUMN number_range text;

-- Messages with a number range by the hour (UTC) of their acceptance. A message without one is in no row: the
-- difference to `read.hourly_stats` counts those.
CREATE TABLE read.range_stats (
  hour         timestamptz NOT NULL,
  account      uuid NOT NULL,
  mode         command.mode NOT NULL,
  class        command.class NOT NULL,
  -- Three digits.
  number_range text NOT NULL,
  -- An empty text for messages without a reason code.
  reason_code  text NOT NULL,
  currency     text NOT NULL,
  -- As in `read.hourly_stats`.
  accepted     integer NOT NULL,
  sent         integer NOT NULL,
  delivered    integer NOT NULL,
  undelivered  integer NOT NULL,
  rejected     integer NOT NULL,
  expired      integer NOT NULL,
  parts        bigint NOT NULL,
  price        numeric(18, 2) NOT NULL,
  PRIMARY KEY (account, mode, hour, class, number_range, reason_code, currency)
) WITH (fillfactor = 50);
-- For retention, and for what concerns all accounts.
CREATE INDEX ON read.range_stats (hour);

-- The table is rebuilt like the other statistics.

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
     WHERE c.oid = ANY (ARRAY['read.checkpoints', 'read.messages', 'read.message_history', 'read.operator_ids', 'read.batches',
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
    SELECT p.relname AS parent, c.relname AS child, pg_get_expr(c.relpartbound, c.oid) AS bounds, w.since
      FROM (VALUES ('read.messages'::regclass, rows_since), ('read.message_history'::regclass, rows_since),
                   ('read.operator_ids'::regclass, ids_since)) AS w (parent, since)
      JOIN pg_inherits i ON i.inhparent = w.parent
      JOIN pg_class p ON p.oid = i.inhparent
      JOIN pg_class c ON c.oid = i.inhrelid
     WHERE c.relname ~ '_[0-9]{6}$'
       AND (w.since IS NULL OR right(c.relname, 6) >= to_char(w.since AT TIME ZONE 'UTC', 'YYYYMM'))
     ORDER BY 1, 2
  LOOP
    -- A month that has been made since: its rows are in the default partition here.
    PERFORM command.require(to_regclass(format('rebuild.%I', live.child)) IS NOT NULL);
    EXECUTE format('ALTER TABLE read.%I DETACH PARTITION read.%I', live.parent, live.child);
    EXECUTE format('ALTER TABLE rebuild.%I DETACH PARTITION rebuild.%I', live.parent, live.child);
    EXECUTE format('ALTER TABLE read.%I SET SCHEMA rebuild_before', live.child);
    EXECUTE format('ALTER TABLE rebuild.%I SET SCHEMA read', live.child);
    EXECUTE format('ALTER TABLE read.%I ATTACH PARTITION read.%I %s', live.parent, live.child, live.bounds);
    EXECUTE format('ALTER TABLE read.%I DROP CONSTRAINT rebuilt_month', live.child);
  END LOOP;
  -- Hardly ever more than a few rows: what belongs to no month.
  DELETE FROM read.messages_default WHERE rows_since IS NULL OR id >= command.uuid_floor(rows_since);
  DELETE FROM read.message_history_default WHERE rows_since IS NULL OR message_id >= command.uuid_floor(rows_since);
  DELETE FROM read.operator_ids_default WHERE ids_since IS NULL OR message_id >= command.uuid_floor(ids_since);
  INSERT INTO read.messages_default SELECT * FROM rebuild.messages_default;
  INSERT INTO read.message_history_default SELECT * FROM rebuild.message_history_default;
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
