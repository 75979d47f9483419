/** Counts the connections to PostgreSQL that were replaced. */
import { counter, labelSets } from '@hub/telemetry'
import { REPLACED_REASONS } from './connection-watch.ts'

export const replaced = counter(
  'hub_postgresql_connections_replaced_total',
  'Connections to PostgreSQL that broke or were found dead, by reason.',
  labelSets({ reason: REPLACED_REASONS }),
)
