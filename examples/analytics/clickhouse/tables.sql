-- Reads the topic. Replace the addresses by those of your hub.
CREATE TABLE outcomes_topic
(
    message_id       String,
    account_id       String,
    message_mode     LowCardinality(String),
    message_class    LowCardinality(String),
    template_name    LowCardinality(String),
    sender_name      LowCardinality(String),
    batch_id         Nullable(String),
    operator_name    Nullable(String),
    part_count       Int32,
    attempt_count    Int32,
    final_status     LowCardinality(String),
    reason_code      Nullable(String),
    price_hundredths Int64,
    price_currency   LowCardinality(String),
    accepted_at      DateTime64(3, 'UTC'),
    submitted_at     Nullable(DateTime64(3, 'UTC')),
    final_at         DateTime64(3, 'UTC')
)
ENGINE = Kafka
SETTINGS kafka_broker_list = '127.0.0.1:7310',
         kafka_topic_list = 'hub.message-outcomes.v1',
         kafka_group_name = 'analytics-clickhouse',
         kafka_format = 'AvroConfluent',
         format_avro_schema_registry_url = 'http://127.0.0.1:7300/schema-registry';

-- Keeps one row for each message: the one with the highest offset, which is the last record.
CREATE TABLE outcomes
(
    message_id       String,
    account_id       String,
    message_mode     LowCardinality(String),
    message_class    LowCardinality(String),
    template_name    LowCardinality(String),
    sender_name      LowCardinality(String),
    batch_id         Nullable(String),
    operator_name    Nullable(String),
    part_count       Int32,
    attempt_count    Int32,
    final_status     LowCardinality(String),
    reason_code      Nullable(String),
    price_hundredths Int64,
    price_currency   LowCardinality(String),
    accepted_at      DateTime64(3, 'UTC'),
    submitted_at     Nullable(DateTime64(3, 'UTC')),
    final_at         DateTime64(3, 'UTC'),
    record_offset    UInt64
)
ENGINE = ReplacingMergeTree(record_offset)
PARTITION BY toYYYYMM(accepted_at)
ORDER BY (account_id, accepted_at, message_id);

CREATE MATERIALIZED VIEW outcomes_reader TO outcomes AS
SELECT *, _offset AS record_offset
  FROM outcomes_topic;
