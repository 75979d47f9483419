-- Reads the topic. The last record of a message counts. Replace the addresses by those of your hub.
CREATE TABLE outcomes (
  message_id       STRING,
  account_id       STRING,
  message_mode     STRING,
  message_class    STRING,
  template_name    STRING,
  sender_name      STRING,
  batch_id         STRING,
  operator_name    STRING,
  part_count       INT,
  attempt_count    INT,
  final_status     STRING,
  reason_code      STRING,
  price_hundredths BIGINT,
  price_currency   STRING,
  accepted_at      TIMESTAMP(3),
  submitted_at     TIMESTAMP(3),
  final_at         TIMESTAMP(3),
  PRIMARY KEY (message_id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'hub.message-outcomes.v1',
  'properties.bootstrap.servers' = '127.0.0.1:7310',
  'properties.group.id' = 'analytics-flink',
  'key.format' = 'raw',
  'value.format' = 'avro-confluent',
  'value.avro-confluent.url' = 'http://127.0.0.1:7300/schema-registry'
);
