/** All crash points, with what has happened when a process reaches one, and what has not. */

/** `reported-failure`: the action has happened, and its caller is told that it failed. */
export const CRASH_FAULTS = ['kill', 'stop', 'reported-failure'] as const
export type CrashFault = (typeof CRASH_FAULTS)[number]

/** The names begin with the app. */
export const CRASH_POINTS = {
  'command-api.key-acquired':
    'PostgreSQL has the lock of an Idempotency-Key. Nothing of its request has been done.',
  'command-api.flood-reserved': 'Redis has the reservations of sends. The ledger does not have the sends.',
  'command-api.recorded':
    'The ledger has an acceptance batch. Its records are not in Kafka, and no client has an answer.',
  'command-api.appended':
    'Kafka has the records of an acceptance batch. Its outbox row remains, and its codes are not answered.',
  'command-api.code-appended-again':
    'Kafka has the record of a code again, after an append of unknown result. The client has no answer.',
  'command-api.day-counted':
    'Redis has counted accepted messages for the daily limit. The process does not know it.',
  'command-api.sealed':
    'The ledger has the seal of a batch with codes, and its record in the outbox. Kafka does not have the record.',
  'command-api.withdrawn':
    'PostgreSQL has said whether a commit with an unknown result took place. Its sends are not decided again.',
  'command-api.relayed': 'Kafka has the records of old outbox rows. The rows are not deleted.',
  'command-api.relay-committed': 'The relayed outbox rows are deleted. The relay does not know it.',
  'command-api.swept':
    'The ledger has the seals of batches that a crash left open. The relay does not know the outbox row.',
  'command-api.lane-ends-read':
    'The reconciler has read the ends of the lanes. It has not proven which codes are missing.',
  'command-api.republished':
    'PostgreSQL has the records of lost messages in the outbox again. The relay does not know the row.',
  'command-api.codes-refunded':
    'PostgreSQL has refunded codes that Kafka does not contain. Their clients have no answer.',
  'command-api.subscription-created':
    'PostgreSQL has a new subscription and its fact in the outbox. Kafka does not have the fact.',
  'command-api.subscription-updated':
    'PostgreSQL has a changed subscription and its fact in the outbox. Kafka does not have the fact.',
  'command-api.secret-rotated':
    'PostgreSQL has the new secret of a subscription and the fact in the outbox. Kafka does not have the fact.',
  'command-api.secret-written':
    'A transaction has written the new secret of a subscription. It has not committed.',
  'command-api.subscription-enabled':
    'PostgreSQL has an enabled subscription and its fact in the outbox. Kafka does not have the fact.',
  'command-api.subscription-deleted':
    'PostgreSQL has the deletion of a subscription and its fact in the outbox. Kafka does not have the fact.',
  'command-api.subscription-announced':
    'Kafka has the fact of a subscription change. Its outbox row remains, and the client has no answer.',
  'command-api.announcement-deleted':
    'The outbox row of a subscription change is deleted. The client has no answer.',
  'command-api.test-delivery-requested':
    'PostgreSQL has the request of a test delivery. Nobody waits for its result.',
  'command-api.payload-key-stored': 'Kafka has a new payload key. No message is encrypted with it.',

  'dispatcher.claim-acknowledged':
    'Kafka has acknowledged handover claims. The messages are not submitted to the operator.',
  'dispatcher.submitted': 'The operator has answered submits. The log has no fact about it.',
  'dispatcher.sent-acknowledged':
    'Kafka has acknowledged MessageSent. The shard has not folded it, and still pins the lane record.',
  'dispatcher.refusal-acknowledged':
    'Kafka has acknowledged HandoverRefused. The shard has not folded it, and does not try again.',
  'dispatcher.outcome-acknowledged':
    'Kafka has acknowledged MessageDelivered. The shard has not folded it, and still pins the report.',
  'dispatcher.messages-re-appended':
    'Kafka has acknowledged OpenMessagesCarried. The shard has not folded it, and still pins older records.',
  'dispatcher.fence-appended': 'Kafka has the fence of a shard. The new owner has not read it back.',
  'dispatcher.offsets-located':
    'A new owner knows the low-water marks of its shards. It has not read their logs.',
  'dispatcher.marks-committed':
    'Kafka has the low-water marks of open shards. The shards do not know it, and forget nothing.',
  'dispatcher.report-stored':
    'Kafka has delivery reports. The operator has no acknowledgement, and sends them again.',
  'dispatcher.inbound-stored':
    'Kafka has inbound messages. The operator has no acknowledgement, and sends them again.',
  'dispatcher.inbound-recorded':
    'PostgreSQL has the records of inbound messages. Their opt-out words are not applied.',
  'dispatcher.opt-outs-applied':
    'PostgreSQL has opt-outs and opt-ins by word. The inbound messages are still pinned.',
  'dispatcher.answers-stored':
    "Kafka has the operator's raw answers to submits. They are still in the buffer.",
  'dispatcher.messages-looked-up':
    'The read model has said whether old messages were submitted. The shard has not used the answer.',

  'projector.rows-written':
    'A transaction has written rows, checkpoints and events of a batch. It has not committed.',
  'projector.committed':
    'PostgreSQL has a batch with its checkpoints. Positions in memory are old, and its events are not published.',
  'projector.events-appended': 'Kafka has recorded events. Their outbox rows are not deleted.',
  'projector.event-rows-deleted':
    'The outbox rows of published events are deleted. The publisher does not know it.',
  'projector.events-relayed': 'Kafka has the events of old outbox rows. The rows are not deleted.',
  'projector.partitions-acquired':
    'The checkpoints have the epoch of a new owner. It has not read from its partitions.',
  'projector.event-source-committed':
    'The journal has events that do not come from a message, such as opt-outs. They are not published.',
  'projector.erasure-published': 'Kafka has an erasure. PostgreSQL does not know that Kafka has it.',
  'projector.retention-stepped': 'A step of retention has removed rows. The next step has not begun.',
  'projector.outcomes-appended':
    'Kafka has the outcomes of messages. PostgreSQL still names these messages, in a transaction that is open.',
  'projector.outcomes-removed':
    'PostgreSQL does not name the messages of written outcomes any more. The projector does not know it.',
  'projector.rebuild-opened': 'The empty tables of a rebuild exist. No record is folded into them.',
  'projector.rebuild-folded':
    'The tables of a rebuild have a batch with its checkpoints. Positions in memory are old.',
  'projector.rebuild-compared': 'The comparison of a rebuild is stored. The swap has not begun.',
  'projector.rebuild-swapping':
    'A transaction has swapped the rebuilt tables with the live ones. It has not committed.',
  'projector.rebuild-swapped':
    'The rebuilt tables are live. The projector that rebuilt them does not know it.',

  'webhook-fanout.partition-acquired':
    'The position has the epoch of a new owner. No subscription is loaded.',
  'webhook-fanout.batches-stored':
    'PostgreSQL has webhook batches and the position. No batch has been attempted.',
  'webhook-fanout.attempted': 'A receiver has answered an attempt. The outcome is not recorded.',
  'webhook-fanout.outcomes-recorded':
    'PostgreSQL has the outcomes of attempts. The process does not know it, and does not free their places.',
  'webhook-fanout.offset-committed': 'Kafka has the offset of a partition. The process does not know it.',
  'webhook-fanout.journal-caught-up':
    'PostgreSQL has batches of the events that a new subscription had missed. No batch has been attempted.',
  'webhook-fanout.redelivery-stored':
    'PostgreSQL has batches of a redelivery and its progress. No batch has been attempted.',
  'webhook-fanout.on-demand-taken':
    'A process has taken test deliveries or resends. It has not attempted them.',
  'webhook-fanout.on-demand-attempted':
    'A receiver has answered a test delivery or a resend. The result is not recorded.',
  'webhook-fanout.on-demand-recorded':
    'PostgreSQL has the result of a test delivery or a resend. The process does not know it.',
  'webhook-fanout.deleted-purged':
    'A step has deleted rows of deleted subscriptions. The next step has not begun.',

  'hubctl.erasure-recorded': 'PostgreSQL has an erasure. No data is removed.',
  'hubctl.erasure-step-written': 'A transaction has removed some data of an erasure. It has not committed.',
  'hubctl.erasure-step-committed': 'A step has removed some data of an erasure. The next step has not begun.',
  'hubctl.rebuild-requested': 'PostgreSQL has the request of a rebuild. The user has no answer.',
  'hubctl.redelivery-requested': 'PostgreSQL has the request of a redelivery. The user has no answer.',
} as const satisfies Readonly<Record<string, string>>

export type CrashPoint = keyof typeof CRASH_POINTS
