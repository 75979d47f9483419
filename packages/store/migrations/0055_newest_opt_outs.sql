-- The pages of the opt-outs, newest first.
CREATE INDEX opt_outs_newest ON command.opt_outs (created_at DESC, recipient);
