-- The fan-out records successes directly; see docs/decisions/0034. A success that an older process left here is not
-- recorded: its batch is still stored, so it is delivered once more under the same id.
DROP TABLE webhooks.noted_successes;
