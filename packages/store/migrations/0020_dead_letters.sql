-- What people have done about dead letters, by where the record came from: two consumers may have set the same one aside. Kafka keeps the records
-- themselves, until their retention is over.
CREATE TABLE command.dead_letters (
  source_topic     text NOT NULL,
  source_partition integer NOT NULL,
  source_offset    bigint NOT NULL,
  -- `retrying`: begun, and nobody knows how it ended.
  outcome          text NOT NULL CHECK (outcome IN ('retrying', 'retried', 'dropped')),
  at               timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (source_topic, source_partition, source_offset)
);
