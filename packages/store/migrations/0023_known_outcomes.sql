-- What lets command-api find out the result of a commit and of a publication. See docs/decisions/0040.

-- The commits of acceptance batches, by UUIDv7. A commit inserts its id; command-api withdraws a commit with an unknown result by inserting
-- the same id. Only one of the two can succeed. Maintenance deletes rows after an hour.
CREATE TABLE command.commits (
  id        uuid PRIMARY KEY,
  withdrawn boolean NOT NULL DEFAULT false
);

-- A code that its process has certainly not given to Kafka. A repeat may then publish it in another batch.
ALTER TABLE command.acceptances ADD COLUMN unpublished boolean NOT NULL DEFAULT false;
