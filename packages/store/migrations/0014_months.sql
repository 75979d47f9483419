-- Large tables in months: what has reached its age is dropped with its month, not deleted row by row. See docs/decisions/0018.
-- Existing rows are copied; on a database with many millions of them, plan for it.

-- Adds a partition without holding up whoever reads or writes the others. What has come into the default partition meanwhile, because
-- nobody had made room in time, moves over.
CREATE FUNCTION command.attach_range(parent regclass, child text, low text, high text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  at_schema name;
  at_table name;
  at_key name;
BEGIN
  SELECT n.nspname, c.relname, a.attname INTO at_schema, at_table, at_key
    FROM pg_partitioned_table p
    JOIN pg_class c ON c.oid = p.partrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
   WHERE p.partrelid = parent;
  EXECUTE format('CREATE TABLE %I.%I (LIKE %s INCLUDING ALL)', at_schema, child, parent);
  EXECUTE format(
    'WITH moved AS (DELETE FROM %1$I.%2$I WHERE %3$I >= %4$L AND %3$I < %5$L RETURNING *) INSERT INTO %1$I.%6$I SELECT * FROM moved',
    at_schema, at_table || '_default', at_key, low, high, child);
  EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%L)', parent, at_schema, child, low, high);
END $$;

-- Makes the monthly partitions of a table from the month of `first` (UTC) on, by moment or by UUIDv7, and answers how many were missing.
-- Safe to repeat, and for several at once.
CREATE FUNCTION command.ensure_months(parent regclass, first timestamptz, months integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  at_table name;
  at_schema name;
  by_id boolean;
  low timestamptz;
  high timestamptz;
  child text;
  made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('command.ensure_months'));
  SELECT n.nspname, c.relname, a.atttypid = 'uuid'::regtype INTO at_schema, at_table, by_id
    FROM pg_partitioned_table p
    JOIN pg_class c ON c.oid = p.partrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
   WHERE p.partrelid = parent;
  FOR i IN 0..months - 1 LOOP
    low := (date_trunc('month', first AT TIME ZONE 'UTC') + make_interval(months => i)) AT TIME ZONE 'UTC';
    high := (date_trunc('month', first AT TIME ZONE 'UTC') + make_interval(months => i + 1)) AT TIME ZONE 'UTC';
    child := format('%s_%s', at_table, to_char(low AT TIME ZONE 'UTC', 'YYYYMM'));
    CONTINUE WHEN to_regclass(format('%I.%I', at_schema, child)) IS NOT NULL;
    PERFORM command.attach_range(
      parent, child,
      CASE WHEN by_id THEN command.uuid_floor(low)::text ELSE low::text END,
      CASE WHEN by_id THEN command.uuid_floor(high)::text ELSE high::text END);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;

-- The days of the ledger in the same way: rows that came while nobody had made their day no longer keep it from being made.
CREATE OR REPLACE FUNCTION command.ensure_acceptance_days(days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  d date;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('command.ensure_acceptance_days'));
  FOR i IN 0..days - 1 LOOP
    d := (now() AT TIME ZONE 'UTC')::date + i;
    CONTINUE WHEN to_regclass(format('command.acceptances_%s', to_char(d, 'YYYYMMDD'))) IS NOT NULL;
    PERFORM command.attach_range(
      'command.acceptances', format('acceptances_%s', to_char(d, 'YYYYMMDD')),
      command.uuid_floor(d::timestamp AT TIME ZONE 'UTC')::text,
      command.uuid_floor((d + 1)::timestamp AT TIME ZONE 'UTC')::text);
  END LOOP;
END $$;

-- The moment in a UUIDv7.
CREATE FUNCTION command.uuid_moment(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT timestamptz 'epoch'
       + (('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint) * interval '1 millisecond'
$$;

-- Puts the rows of a table, renamed to `<name>_whole`, into months: from that of its oldest row, of three years at most,
-- to the next one. `key`: what it is partitioned by.
CREATE FUNCTION command.move_into_months(parent regclass, whole regclass, key name, by_id boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  first timestamptz;
BEGIN
  EXECUTE format(CASE WHEN by_id THEN 'SELECT command.uuid_moment(%1$I) FROM %2$s ORDER BY %1$I LIMIT 1'
                      ELSE 'SELECT %1$I FROM %2$s ORDER BY %1$I LIMIT 1' END, key, whole) INTO first;
  first := greatest(least(coalesce(first, now()), now()), now() - interval '37 months');
  PERFORM command.ensure_months(
    parent, first,
    ((extract(year FROM now()) - extract(year FROM first)) * 12 + extract(month FROM now()) - extract(month FROM first))::integer + 2);
  EXECUTE format('INSERT INTO %s SELECT * FROM %s', parent, whole);
  EXECUTE format('DROP TABLE %s', whole);
END $$;

-- Messages, by id.
ALTER TABLE read.messages RENAME TO messages_whole;
CREATE TABLE read.messages (LIKE read.messages_whole INCLUDING DEFAULTS) PARTITION BY RANGE (id);
CREATE TABLE read.messages_default PARTITION OF read.messages DEFAULT;
SELECT command.move_into_months('read.messages', 'read.messages_whole', 'id', true);
ALTER TABLE read.messages ADD PRIMARY KEY (id);
CREATE INDEX messages_batch ON read.messages (batch_id, id) WHERE batch_id IS NOT NULL;

ALTER TABLE read.message_history RENAME TO message_history_whole;
CREATE TABLE read.message_history (LIKE read.message_history_whole INCLUDING DEFAULTS) PARTITION BY RANGE (message_id);
CREATE TABLE read.message_history_default PARTITION OF read.message_history DEFAULT;
SELECT command.move_into_months('read.message_history', 'read.message_history_whole', 'message_id', true);
ALTER TABLE read.message_history ADD PRIMARY KEY (message_id, fact_id);

ALTER TABLE read.personal_data RENAME TO personal_data_whole;
CREATE TABLE read.personal_data (LIKE read.personal_data_whole INCLUDING DEFAULTS) PARTITION BY RANGE (message_id);
CREATE TABLE read.personal_data_default PARTITION OF read.personal_data DEFAULT;
SELECT command.move_into_months('read.personal_data', 'read.personal_data_whole', 'message_id', true);
ALTER TABLE read.personal_data ADD PRIMARY KEY (message_id);
CREATE INDEX personal_data_recipient ON read.personal_data (recipient);

ALTER TABLE read.operator_ids RENAME TO operator_ids_whole;
CREATE TABLE read.operator_ids (LIKE read.operator_ids_whole INCLUDING DEFAULTS) PARTITION BY RANGE (message_id);
CREATE TABLE read.operator_ids_default PARTITION OF read.operator_ids DEFAULT;
SELECT command.move_into_months('read.operator_ids', 'read.operator_ids_whole', 'message_id', true);
ALTER TABLE read.operator_ids ADD PRIMARY KEY (operator, operator_id, message_id);
-- The ids of a message, when a report asks what is known of it.
CREATE INDEX operator_ids_message ON read.operator_ids (message_id);

-- The event journal, by moment of recording. A place and an id are each in one month only because whoever records holds the end of the
-- journal and has looked for the id: the keys cannot say so across months.
ALTER TABLE read.events RENAME TO events_whole;
CREATE TABLE read.events (LIKE read.events_whole INCLUDING DEFAULTS) PARTITION BY RANGE (created_at);
CREATE TABLE read.events_default PARTITION OF read.events DEFAULT;
SELECT command.move_into_months('read.events', 'read.events_whole', 'created_at', false);
ALTER TABLE read.events ADD PRIMARY KEY (account, mode, sequence, created_at), ADD UNIQUE (id, created_at);
CREATE INDEX events_created ON read.events (account, mode, created_at, sequence);
CREATE INDEX events_type ON read.events (account, mode, type, sequence);

-- The log of webhook deliveries, by id.
ALTER TABLE webhooks.attempts RENAME TO attempts_whole;
CREATE TABLE webhooks.attempts (LIKE webhooks.attempts_whole INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (id);
CREATE TABLE webhooks.attempts_default PARTITION OF webhooks.attempts DEFAULT;
SELECT command.move_into_months('webhooks.attempts', 'webhooks.attempts_whole', 'id', true);
ALTER TABLE webhooks.attempts
  ADD PRIMARY KEY (id), ADD FOREIGN KEY (endpoint_id) REFERENCES webhooks.endpoints ON DELETE CASCADE;
CREATE INDEX attempts_endpoint ON webhooks.attempts (endpoint_id, id DESC);

DROP FUNCTION command.move_into_months;
