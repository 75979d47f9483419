-- Inbound messages: the record for three years, number and text encrypted for one. See docs/decisions/0018.
CREATE TABLE command.inbound_messages (
  -- The id of the record in `hub.operator-reports.v1`: a message that is read again is the same row.
  id              uuid PRIMARY KEY,
  recipient       bytea NOT NULL,
  operator        text NOT NULL,
  -- The short number or sender name of the hub that received it.
  service_address text NOT NULL,
  received_at     timestamptz(3) NOT NULL,
  -- Number and text, under the key of the day of receipt. NULL: a year old, or erased.
  sealing_key     text,
  sealed          bytea
);
CREATE INDEX inbound_messages_recipient ON command.inbound_messages (recipient, received_at);
CREATE INDEX inbound_messages_received ON command.inbound_messages (received_at);
-- Retention looks for content that is a year old.
CREATE INDEX inbound_messages_content ON command.inbound_messages (received_at) WHERE sealed IS NOT NULL;
