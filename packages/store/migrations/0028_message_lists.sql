-- Lists of the newest messages of an account, with and without filters. See docs/decisions/0042.
--
-- A list compares all columns before `created_at` with one value each, so it reads its page from the
-- end of a range of the index. A list without a class, or without a status, reads each of them.
CREATE INDEX messages_class ON read.messages (account, mode, class, status, created_at, id);
CREATE INDEX messages_template ON read.messages (account, mode, template, status, created_at, id);
