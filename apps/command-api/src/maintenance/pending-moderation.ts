/** How long templates and senders have waited for moderation. Hub staff get an alert. */
import { newSenderStatus, newTemplateStatus } from '@hub/domain'
import type { Queries } from '@hub/store'

/** The age of the oldest waiting request in seconds, by the clock of PostgreSQL; 0 if none waits. */
export interface PendingModeration {
  readonly template: number
  readonly sender: number
}

/** Test mode waits for no moderation, so a waiting status is that of live mode. */
const WAITING = { template: newTemplateStatus('live'), sender: newSenderStatus('live') } as const

/** Reads all templates and senders: a deployment has thousands of them at most. */
export const readPendingModeration = async (q: Queries): Promise<PendingModeration> => {
  const [ages] = await q<PendingModeration[]>`
    SELECT coalesce(extract(epoch FROM clock_timestamp() -
             (SELECT min(created_at) FROM command.templates WHERE status = ${WAITING.template})), 0)::float8 AS template,
           coalesce(extract(epoch FROM clock_timestamp() -
             (SELECT min(created_at) FROM command.senders WHERE status = ${WAITING.sender})), 0)::float8 AS sender`
  return ages ?? { template: 0, sender: 0 }
}
