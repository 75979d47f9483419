/** The metrics of the listener. */
import { counter, labelSets } from '@hub/telemetry'

export const closedAtLimit = counter(
  'hub_http_connections_closed_total',
  'Connections that the server closed because of a limit of connections, by limit and by which one was closed.',
  labelSets({ limit: ['all', 'address'], closed: ['waiting', 'new'] }),
)
