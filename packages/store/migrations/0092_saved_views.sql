-- Lists with their filters that hub staff have saved under a name. See docs/decisions/operations.md#saved-views.
CREATE TABLE command.saved_views (
  id         uuid PRIMARY KEY,
  name       text NOT NULL,
  -- A list of the console, such as `messages`.
  list       text NOT NULL,
  -- The filters as in the address of the list: an object of texts.
  filters    jsonb NOT NULL,
  -- Whether all hub staff see it. Otherwise only its owner does.
  shared     boolean NOT NULL,
  -- Who saved it: issuer and subject of the identity provider, and a name for readers.
  owner_id   text NOT NULL,
  owner      text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  changed_at timestamptz(3) NOT NULL DEFAULT now(),
  CONSTRAINT saved_views_hold_no_number CHECK (
    name !~ '\+\d{11}' AND filters::text !~ '\+\d{11}' AND owner_id !~ '\+\d{11}' AND owner !~ '\+\d{11}')
);
-- A name opens one view. Private views have names of their own.
CREATE UNIQUE INDEX saved_views_shared_name ON command.saved_views (lower(name)) WHERE shared;
CREATE UNIQUE INDEX saved_views_private_name ON command.saved_views (owner_id, lower(name)) WHERE NOT shared;
