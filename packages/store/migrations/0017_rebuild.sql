-- Rebuilding the read models from the log. See docs/decisions/0020.

-- A row a rebuild: what was asked for, who is at it, how far it has come, what the comparison found.
CREATE TABLE command.rebuilds (
  id           uuid PRIMARY KEY,
  -- What follows from the comparison: nothing; the swap unless something differs; the swap in any case.
  policy       text NOT NULL CHECK (policy IN ('compare_only', 'swap_if_equal', 'swap')),
  state        text NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'folding', 'comparing', 'swapping', 'ended')),
  outcome      text CHECK (outcome IN ('compared', 'refused', 'swapped', 'cancelled', 'failed')),
  failure      text,
  -- The projector that is at it, and until when the others leave it alone.
  owner        uuid,
  owner_until  timestamptz(3),
  -- Messages from this moment on are rebuilt: of older ones the topics no longer hold everything. NULL: all.
  since        timestamptz(3),
  -- Batches and days from this moment on: nothing older than `since` adds to them. NULL: all.
  sums_since   timestamptz(3),
  -- Records folded, and messages whose number and text were missing and are there again.
  records      bigint NOT NULL DEFAULT 0,
  restored     bigint NOT NULL DEFAULT 0,
  -- What the comparison found, table by table; names and ids, no values.
  compared     jsonb,
  requested_at timestamptz(3) NOT NULL DEFAULT now(),
  started_at   timestamptz(3),
  compared_at  timestamptz(3),
  ended_at     timestamptz(3),
  -- When the tables beside the live ones were dropped.
  cleared_at   timestamptz(3),
  CHECK ((state = 'ended') = (ended_at IS NOT NULL) AND (state = 'ended') = (outcome IS NOT NULL))
);
-- One at a time.
CREATE UNIQUE INDEX rebuilds_open ON command.rebuilds ((true)) WHERE ended_at IS NULL;
CREATE INDEX rebuilds_to_clear ON command.rebuilds (id) WHERE cleared_at IS NULL;
CREATE INDEX rebuilds_requested ON command.rebuilds (requested_at DESC);

-- Gives every month of the live tables its counterpart. The constraint says what the month holds, so that it can take the live one's place
-- without being read.
CREATE FUNCTION command.extend_rebuild() RETURNS void LANGUAGE plpgsql AS $$
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
     WHERE p.oid IN ('read.messages'::regclass, 'read.message_history'::regclass, 'read.operator_ids'::regclass)
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

-- Drops what a rebuild has left.
CREATE FUNCTION command.close_rebuild() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DROP SCHEMA IF EXISTS rebuild CASCADE;
  DROP SCHEMA IF EXISTS rebuild_before CASCADE;
END $$;

-- Makes empty tables like the live ones, in a schema beside theirs.
CREATE FUNCTION command.open_rebuild() RETURNS void LANGUAGE plpgsql AS $$
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
                              'read.daily_stats', 'read.charges']::regclass[])
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
CREATE FUNCTION command.swap_rebuilt(rows_since timestamptz, ids_since timestamptz) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;
