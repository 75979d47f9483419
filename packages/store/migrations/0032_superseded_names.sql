-- Declined templates and senders whose name was submitted again. The row of the name gets the new
-- id, and the declined one moves here, so that the name stays unique and reads by id still find it.
CREATE TABLE command.superseded_templates (
  id            uuid PRIMARY KEY,
  account       uuid NOT NULL REFERENCES command.accounts,
  mode          command.mode NOT NULL,
  name          text NOT NULL,
  class         command.class NOT NULL,
  sender        text NOT NULL,
  body          text NOT NULL,
  language      text,
  status        text NOT NULL CHECK (status = 'declined'),
  reason        text,
  created_at    timestamptz(3) NOT NULL,
  superseded_at timestamptz(3) NOT NULL DEFAULT now()
);
CREATE INDEX superseded_templates_newest ON command.superseded_templates (account, mode, created_at, id);

CREATE TABLE command.superseded_senders (
  id            uuid PRIMARY KEY,
  account       uuid NOT NULL REFERENCES command.accounts,
  mode          command.mode NOT NULL,
  name          text NOT NULL,
  registration  jsonb,
  status        text NOT NULL CHECK (status = 'declined'),
  reason        text,
  created_at    timestamptz(3) NOT NULL,
  superseded_at timestamptz(3) NOT NULL DEFAULT now()
);
CREATE INDEX superseded_senders_newest ON command.superseded_senders (account, mode, created_at, id);
