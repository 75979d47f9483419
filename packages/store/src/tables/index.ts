/**
 * Tables that more than one app uses: one file for each table, in a folder for its schema.
 *
 * A file contains the row type and the typed statements that other apps need: a read, an insert, or
 * a fragment of a larger statement. Its doc comment names the app that writes the table. Statements
 * that only the owner runs stay in the owner, in a file with the name of the table.
 *
 * Each file is exported as one namespace, named after schema and table:
 * `ReadCheckpoints.readPositions(q)`. Each statement takes `q` first, so that it runs in the
 * transaction of its caller.
 */
export * as AccountActivity from './activity.ts'
export * as CommandAccounts from './command/accounts.ts'
export * as CommandAccountSettings from './command/account-settings.ts'
export * as CommandApiKeys from './command/api-keys.ts'
export * as CommandAudit from './command/audit.ts'
export * as CommandClientRefs from './command/client-refs.ts'
export * as CommandErasures from './command/erasures.ts'
export * as CommandAcceptances from './command/acceptances.ts'
export * as CommandEventInbox from './command/event-inbox.ts'
export * as CommandHubSettings from './command/hub-settings.ts'
export * as CommandInboundMessages from './command/inbound-messages.ts'
export * as CommandOptOuts from './command/opt-outs.ts'
export * as CommandOutbox from './command/outbox.ts'
export * as CommandRangeBlocks from './command/range-blocks.ts'
export * as CommandRetentionJobs from './command/retention-jobs.ts'
export * as CommandSenders from './command/senders.ts'
export * as CommandSpendPeriods from './command/spend-periods.ts'
export * as CommandTemplates from './command/templates.ts'
export * as ReadBatches from './read/batches.ts'
export * as ReadCharges from './read/charges.ts'
export * as ReadCheckpoints from './read/checkpoints.ts'
export * as ReadDailyStats from './read/daily-stats.ts'
export * as ReadEvents from './read/events.ts'
export * as ReadHourlyStats from './read/hourly-stats.ts'
export * as ReadInsights from './read/insights.ts'
export * as ReadMessageMinutes from './read/message-minutes.ts'
export * as ReadMessages from './read/messages.ts'
export * as MessageSearch from './read/message-search.ts'
export * as ReadOperatorIds from './read/operator-ids.ts'
export * as ReadRangeStats from './read/range-stats.ts'
export * as WebhooksAttempts from './webhooks/attempts.ts'
export * as WebhooksBatches from './webhooks/batches.ts'
export * as WebhooksEndpoints from './webhooks/endpoints.ts'
export * as WebhooksPositions from './webhooks/positions.ts'
export * as WebhooksResends from './webhooks/resends.ts'
export * as WebhooksTrials from './webhooks/trials.ts'
export type { StatsPeriod, StatsSum } from './read/stats-sums.ts'
export type { ModeratedRow, ModerationFilter } from './command/moderated.ts'
export { TABLE_OWNERS, type TableName, type TableOwner } from './owners.ts'
