-- The record of opt-outs, which is never deleted: each change, when, and by which word or by whom.
-- `command.opt_outs` contains the recipients who are opted out now.
CREATE TABLE command.opt_out_history (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- The events of the change derive their ids from it.
  change_id    uuid NOT NULL DEFAULT gen_random_uuid(),
  recipient    bytea NOT NULL,
  change       text NOT NULL CHECK (change IN ('opted_out', 'opted_in')),
  at           timestamptz(3) NOT NULL DEFAULT now(),
  source       text NOT NULL CHECK (source IN ('inbound', 'operator', 'import')),
  -- The keyword of an inbound message, and never its text.
  word         text,
  -- Who changed it with hubctl.
  actor        text,
  -- When the events of the change were recorded; NULL: not yet.
  announced_at timestamptz(3)
);
CREATE INDEX opt_out_history_recipient ON command.opt_out_history (recipient, id);
CREATE INDEX opt_out_history_waiting ON command.opt_out_history (id) WHERE announced_at IS NULL;

INSERT INTO command.opt_out_history (recipient, change, at, source, announced_at)
SELECT recipient, 'opted_out', created_at, source, now() FROM command.opt_outs;
