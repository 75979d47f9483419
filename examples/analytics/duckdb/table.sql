-- One row for each message with a final status. All times are in UTC, whatever the time zone of this machine.
SET TimeZone = 'UTC';
CREATE TABLE IF NOT EXISTS outcomes (
  message_id       VARCHAR PRIMARY KEY,
  account_id       VARCHAR NOT NULL,
  message_mode     VARCHAR NOT NULL,
  message_class    VARCHAR NOT NULL,
  template_name    VARCHAR NOT NULL,
  sender_name      VARCHAR NOT NULL,
  batch_id         VARCHAR,
  operator_name    VARCHAR,
  part_count       INTEGER NOT NULL,
  attempt_count    INTEGER NOT NULL,
  final_status     VARCHAR NOT NULL,
  reason_code      VARCHAR,
  price_hundredths BIGINT NOT NULL,
  price_currency   VARCHAR NOT NULL,
  accepted_at      TIMESTAMP NOT NULL,
  submitted_at     TIMESTAMP,
  final_at         TIMESTAMP NOT NULL
);
