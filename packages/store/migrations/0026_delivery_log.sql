-- The filters of the delivery log. Failed attempts are rare, so their index is small. The attempts of an event are found
-- by the batches that contain it.
CREATE INDEX attempts_failed ON webhooks.attempts (endpoint_id, id) WHERE status = 'failed';
CREATE INDEX attempts_batch ON webhooks.attempts (batch_id);
