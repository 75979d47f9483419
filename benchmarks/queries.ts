/** Queries through command-api, and the bare SQL of the same rows. */
import { randomBytes, randomUUID } from 'node:crypto'
import { API_KEY_RANDOM_BYTES, apiKeyDigest, apiKeyEnding, apiKeyFrom, decodeId, encodeId } from '@hub/domain'
import { CommandAccounts, CommandApiKeys } from '@hub/store'
import { freePort } from '@hub/testkit'
import { startScript } from './child-process.ts'
import { cpuWithChildrenMs } from './process-usage.ts'
import type { ReadModelEnvironment } from './read-model-environment.ts'
import type { FilledTables } from './fill-read-models.ts'
import type { ReaderPlan, ReaderResult } from './reader.ts'

/** As many as the section `accepting` has. Pages are larger, so fewer readers suffice. */
const MESSAGE_READERS = 64
const PAGE_READERS = 8
/** The pool size of command-api. The bare SQL of pages uses as many connections. */
const CONNECTIONS = 10
/** Statements that read single messages at the same time, as in command-api. */
const MESSAGE_CONNECTIONS = 3
const PAGE = 1000

/**
 * The statements of command-api's own reads. The rest of the time is the cost of the hub. $1 is a list
 * of ids, $2 the smallest and $3 the largest.
 */
const MESSAGES = `
  SELECT m.id, m.account, m.mode, m.class, m.recipient, m.template, m.sender, m.client_ref, m.batch_id, m.parts,
         m.price, m.currency, m.variables, m.created_at, m.updated_at, m.status, m.reason_code, m.attempts,
         (SELECT json_agg(json_build_object('status', h.status, 'reason', h.reason_code,
                                            'at', floor(extract(epoch FROM h.at) * 1000)))
            FROM read.message_history h WHERE h.message_id = m.id AND h.message_id BETWEEN $2 AND $3) AS history,
         m.created_at > now() - interval '1 year' AS in_first_year,
         m.created_at > now() - interval '3 years' AS is_shown,
         p.sealing_key AS personal_key, p.sealed AS personal
    FROM unnest($1::uuid[]) AS asked (id)
   CROSS JOIN LATERAL (
         SELECT * FROM read.messages WHERE id = asked.id AND id BETWEEN $2 AND $3 LIMIT 1) AS m
    LEFT JOIN LATERAL (
         SELECT sealing_key, sealed FROM read.personal_data
          WHERE message_id = asked.id AND message_id BETWEEN $2 AND $3 LIMIT 1) AS p
      ON m.created_at > now() - interval '1 year'
   WHERE m.account IS NOT NULL`
const pageOf = (account: string): string => `
  SELECT id, body FROM read.events
   WHERE account = '${decodeId('acc', account)}' AND mode = 'test' AND sequence > $1
     AND created_at >= $2::text::timestamptz AND created_at > now() - interval '3 years'
   ORDER BY sequence LIMIT ${PAGE + 1}`

export interface QueryFigures extends ReaderResult {
  /** CPU time per answer of command-api (bare: of the reader process) and of PostgreSQL, µs. */
  readonly serverCpu: number
  readonly postgresCpu: number
}

/** Creates an account (`acc_…`) with an API key, and starts command-api. */
export const makeQueries = async (environment: ReadModelEnvironment, redisUrl: string) => {
  const uuid = randomUUID()
  const key = apiKeyFrom('test', randomBytes(API_KEY_RANDOM_BYTES))
  await CommandAccounts.insert(environment.sql, { id: uuid, name: 'bench' })
  await CommandApiKeys.insert(environment.sql, {
    id: randomUUID(),
    account: uuid,
    mode: 'test',
    digest: apiKeyDigest(key),
    ending: apiKeyEnding(key),
    allowed: null,
  })
  // No rate limit: the machine is the limit.
  await environment.sql`INSERT INTO command.account_settings (account, mode, api_rps) VALUES (${uuid}, 'test', 1000000)`
  const account = encodeId('acc', uuid)
  const port = await freePort()
  const baseUrl = `http://127.0.0.1:${port}`
  const api = await environment.start('command-api', {
    HUB_PORT: String(port),
    HUB_BASE_URL: baseUrl,
    HUB_REDIS_URL: redisUrl,
  })

  const measure = async (server: number | null, plan: ReaderPlan): Promise<QueryFigures> => {
    const before = [server === null ? 0 : cpuWithChildrenMs(server), environment.postgresCpu()] as const
    const { first: result } = await startScript<ReaderResult>('reader.ts', plan)
    if (result.failed > 0) throw new Error(`${result.failed} reads failed or returned no row.`)
    const answers = result.perSecond * (plan.durationMs / 1000)
    return {
      ...result,
      serverCpu: server === null ? result.cpu : ((cpuWithChildrenMs(server) - before[0]) * 1000) / answers,
      postgresCpu: ((environment.postgresCpu() - before[1]) * 1000) / answers,
    }
  }
  const overHttp = (paths: ReadonlyArray<string>, readers: number, durationMs: number) =>
    measure(api.pid, {
      wanted: paths.map((path) => [path]),
      readers,
      durationMs,
      from: { kind: 'http', baseUrl, key },
    })
  const { databaseUrl } = environment
  const bare = (
    from: { readonly statement: string; readonly connections: number; readonly isGathered: boolean },
    plan: Pick<ReaderPlan, 'wanted' | 'readers' | 'durationMs'>,
  ) => measure(null, { ...plan, from: { kind: 'sql', databaseUrl, ...from } })

  return {
    account,
    messages: ({ messages }: FilledTables, durationMs: number) => {
      const paths = messages.map((id) => `/v1/messages/${id}`)
      return overHttp(paths, MESSAGE_READERS, durationMs)
    },
    bareMessages: ({ messages }: FilledTables, durationMs: number) => {
      const wanted = messages.map((id) => [decodeId('msg', id)!])
      return bare(
        { statement: MESSAGES, connections: MESSAGE_CONNECTIONS, isGathered: true },
        { wanted, readers: MESSAGE_READERS, durationMs },
      )
    },
    pages: ({ cursors }: FilledTables, durationMs: number) => {
      const paths = cursors.map(({ event }) => `/v1/events?limit=${PAGE}&starting_after=${event}`)
      return overHttp(paths, PAGE_READERS, durationMs)
    },
    barePages: ({ cursors }: FilledTables, durationMs: number) => {
      const wanted = cursors.map(({ at, sequence }) => [String(sequence), at])
      return bare(
        { statement: pageOf(account), connections: CONNECTIONS, isGathered: false },
        { wanted, readers: PAGE_READERS, durationMs },
      )
    },
    end: () => api.kill('SIGTERM'),
  }
}
