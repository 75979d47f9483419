-- The number of handover claims, where it differs from the attempts: nothing was submitted after some of them, or the
-- outcome of the last one is not known yet.
ALTER TABLE read.messages ADD COLUMN claims smallint, ADD COLUMN claim_open boolean;
