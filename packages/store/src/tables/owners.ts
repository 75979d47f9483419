/**
 * The owner of each table. Only the owner contains SQL for the table. Others call the typed
 * statements in this folder. `tools/table-ownership/table-ownership.unit.test.ts` checks the
 * sources against this map.
 *
 * `store` means a module of this package that several processes run, such as retention, and
 * `operations` the package with the use cases of hub staff.
 * Two owners of a table write different columns; the file of the table says which.
 */
export type TableOwner =
  | 'command-api'
  | 'dispatcher'
  | 'projector'
  | 'webhook-fanout'
  | 'hubctl'
  | 'operations'
  | 'operations-api'
  | 'store'

export const TABLE_OWNERS = {
  'command.acceptances': ['command-api'],
  'command.account_settings': ['command-api'],
  'command.accounts': ['command-api'],
  'command.api_keys': ['command-api'],
  'command.audit': ['operations'],
  'command.batches': ['command-api'],
  'command.certifications': ['operations'],
  'command.client_refs': ['command-api'],
  'command.commits': ['command-api'],
  'command.account_members': ['operations'],
  'command.dead_letters': ['operations'],
  'command.erasure_requests': ['store'],
  'command.erasures': ['store'],
  'command.event_inbox': ['projector'],
  'command.hub_identity': ['store'],
  'command.hub_processes': ['store'],
  'command.hub_settings': ['command-api'],
  'command.idempotency_keys': ['command-api'],
  'command.inbound_messages': ['dispatcher', 'store'],
  'command.key_requests': ['operations'],
  'command.operations_sessions': ['operations-api'],
  // The dispatcher inserts the changes. The projector writes `announced_at`.
  'command.opt_out_history': ['dispatcher', 'projector'],
  'command.opt_out_words': ['dispatcher'],
  'command.opt_outs': ['dispatcher'],
  'command.outbox': ['command-api'],
  'command.range_blocks': ['command-api'],
  'command.rebuilds': ['projector'],
  'command.retention_jobs': ['store'],
  'command.saved_views': ['operations'],
  'command.sealing_keys': ['store'],
  'command.senders': ['command-api'],
  'command.spend_periods': ['command-api'],
  'command.superseded_senders': ['command-api'],
  'command.superseded_templates': ['command-api'],
  'command.templates': ['command-api'],
  'read.batches': ['projector'],
  'read.charges': ['projector'],
  'read.checkpoints': ['projector'],
  'read.daily_stats': ['projector'],
  'read.earlier_history': ['projector'],
  'read.event_heads': ['projector'],
  'read.event_outbox': ['projector'],
  'read.event_journal': ['projector'],
  // A view of the event journal.
  'read.events': ['projector'],
  'read.hourly_stats': ['projector'],
  // A view of the messages, and of what earlier versions wrote.
  'read.message_history': ['projector'],
  'read.messages': ['projector'],
  'read.operator_ids': ['projector'],
  'read.outcomes_due': ['projector'],
  'read.personal_data': ['projector'],
  'read.range_stats': ['projector'],
  'webhooks.attempts': ['webhook-fanout'],
  'webhooks.batch_events': ['webhook-fanout'],
  'webhooks.batches': ['webhook-fanout'],
  'webhooks.endpoints': ['command-api', 'webhook-fanout'],
  'webhooks.positions': ['webhook-fanout'],
  'webhooks.redeliveries': ['store', 'webhook-fanout'],
  'webhooks.resends': ['store', 'webhook-fanout'],
  'webhooks.trials': ['store', 'webhook-fanout'],
} as const satisfies Readonly<Record<string, ReadonlyArray<TableOwner>>>

export type TableName = keyof typeof TABLE_OWNERS
