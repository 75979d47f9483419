-- The search of hub staff among the messages of all accounts. See docs/decisions/0070.

-- Failed messages, newest first, by reason. Messages without a reason are not in it.
CREATE INDEX messages_failed ON read.messages (reason_code, id) WHERE reason_code IS NOT NULL;

-- The messages to a recipient, newest first: a test number can have any number of them.
CREATE INDEX personal_data_recipient_newest ON read.personal_data (recipient, message_id);
DROP INDEX read.personal_data_recipient;
