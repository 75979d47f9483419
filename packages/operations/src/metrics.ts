/** The metrics of operations. `docs/metrics.md` lists them. */
import { counter, labelSets } from '@hub/telemetry'

export const lookupsCounted = counter(
  'hub_operations_lookups_total',
  'Look-ups of persons through the operations API, by result.',
  labelSets({ result: ['begun', 'refused'] }),
)
