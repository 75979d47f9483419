-- Lists of templates and senders are newest first.
CREATE INDEX templates_newest ON command.templates (account, mode, created_at, id);
CREATE INDEX senders_newest ON command.senders (account, mode, created_at, id);

-- A reader of rare types must not pass over everything else. With 500,000 events and two of a type among them a page took
-- 110 ms, growing with the journal; with this index 2 ms, and recording costs no measurable more.
CREATE INDEX events_type ON read.events (account, mode, type, sequence);
