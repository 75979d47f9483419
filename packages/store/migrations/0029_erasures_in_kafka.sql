-- Erasures are also records of Kafka, so that they can be applied again after the restore of a backup.
-- See docs/decisions/0038.

-- When the current `before` of the erasure was appended to `hub.erasures.v1`; NULL: a projector does it next.
ALTER TABLE command.erasures ADD COLUMN published_at timestamptz(3);
CREATE INDEX erasures_unpublished ON command.erasures (requested_at) WHERE published_at IS NULL;
