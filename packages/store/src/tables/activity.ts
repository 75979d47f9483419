/**
 * What an account has done in test mode: the observed part of the certification checklist. One
 * statement reads several tables, all of which belong to other apps than hubctl.
 */
import type { ObservedActivity } from '@hub/domain'
import { firstRow, type Queries } from '../sql.ts'

/** The activity of an account (UUID); `null` if the account does not exist. */
export const read = async (q: Queries, account: string): Promise<ObservedActivity | null> =>
  firstRow(q<ObservedActivity[]>`
    SELECT (SELECT count(*) FROM command.api_keys WHERE account = a.id AND mode = 'test')::integer AS "testKeys",
           s.delivered, s.failed,
           (SELECT count(*) FROM (
              SELECT 1 FROM command.client_refs r WHERE r.account = a.id AND r.mode = 'test' LIMIT 1) AS r)::integer AS "references",
           (SELECT count(*) FROM webhooks.endpoints e
             WHERE e.account = a.id AND e.mode = 'test' AND e.status = 'enabled' AND e.deleted_at IS NULL
               AND EXISTS (SELECT 1 FROM webhooks.attempts t
                            WHERE t.endpoint_id = e.id AND t.status = 'succeeded' AND NOT t.trial))::integer AS "webhooksReceived",
           (SELECT count(*) FROM command.senders WHERE account = a.id AND mode = 'live' AND status = 'registered')::integer AS "liveSenders",
           (SELECT count(*) FROM command.templates t
              JOIN command.senders s USING (account, mode)
             WHERE t.account = a.id AND t.mode = 'live' AND t.status = 'approved'
               AND s.name = t.sender AND s.status = 'registered')::integer AS "liveTemplates"
      FROM command.accounts a
     CROSS JOIN LATERAL (
            SELECT coalesce(sum(delivered), 0)::integer AS delivered,
                   coalesce(sum(undelivered + rejected + expired), 0)::integer AS failed
              FROM read.daily_stats d WHERE d.account = a.id AND d.mode = 'test') AS s
     WHERE a.id = ${account}`)
