/** What command-api carries of reads, against the bare SQL of the same rows: messages by id, and pages of a thousand events. */
import { fork } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { API_KEY_RANDOM_BYTES, apiKeyDigest, apiKeyEnding, apiKeyFrom, decodeId, encodeId } from '@hub/domain'
import { insertAccount, insertApiKey } from '@hub/store'
import { cpuMs } from './cpu.ts'
import { freePort } from './dispatch-world.ts'
import type { KnowingWorld } from './knowing-world.ts'
import type { FilledTables } from './read-tables.ts'
import type { ReaderPlan, ReaderResult } from './reader.ts'

/** As many as the sections about sending have. A page is a thousand times as much: fewer ask for one at a time. */
const MESSAGE_READERS = 64
const PAGE_READERS = 8
/** The size of command-api's pool: the bare one gets as many. */
const CONNECTIONS = 10
const PAGE = 1000

const runReader = (plan: ReaderPlan): Promise<ReaderResult> =>
  new Promise((resolve, reject) => {
    const child = fork(new URL('reader.ts', import.meta.url))
    child.once('message', (result) => resolve(result as ReaderResult))
    child.once('exit', (code) => reject(new Error(`the readers ended early (${code})`)))
    child.send(plan)
  })

/** The statements of command-api's own reads (`messages/store.ts`, `events/events.ts`), over as many connections: what the bare one leaves out is the hub. */
const MESSAGE = `
  SELECT m.id, m.account, m.mode, m.class, m.recipient, m.template, m.sender, m.client_ref, m.batch_id, m.parts,
         m.price, m.currency, m.variables, m.created_at, m.updated_at, m.status, m.reason_code, m.attempts,
         (SELECT json_agg(json_build_object('status', h.status, 'reason', h.reason_code,
                                            'at', floor(extract(epoch FROM h.at) * 1000)))
            FROM read.message_history h WHERE h.message_id = m.id AND h.message_id BETWEEN $1 AND $1) AS history,
         m.created_at > now() - interval '1 year' AS in_first_year,
         m.created_at > now() - interval '3 years' AS is_shown,
         p.sealing_key AS personal_key, p.sealed AS personal
    FROM unnest(ARRAY[$1]::uuid[]) AS asked (id)
   CROSS JOIN LATERAL (
         SELECT * FROM read.messages WHERE id = asked.id AND id BETWEEN $1 AND $1 LIMIT 1) AS m
    LEFT JOIN LATERAL (
         SELECT sealing_key, sealed FROM read.personal_data
          WHERE message_id = asked.id AND message_id BETWEEN $1 AND $1 LIMIT 1) AS p
      ON m.created_at > now() - interval '1 year'
   WHERE m.account IS NOT NULL`
const pageOf = (account: string): string => `
  SELECT id, body FROM read.events
   WHERE account = '${decodeId('acc', account)}' AND mode = 'test' AND sequence > $1
     AND created_at >= $2::text::timestamptz AND created_at > now() - interval '3 years'
   ORDER BY sequence LIMIT ${PAGE + 1}`

export interface Read extends ReaderResult {
  /** CPU time for an answer of command-api (bare: of the readers) and PostgreSQL, µs. */
  readonly serverCpu: number
  readonly postgresCpu: number
}

/** An account (`acc_…`) with a key of its own, and command-api on the world's servers. */
export const makeReading = async (
  world: KnowingWorld,
  redisUrl: string,
  flags: ReadonlyArray<string> = [],
) => {
  const uuid = randomUUID()
  const key = apiKeyFrom('test', randomBytes(API_KEY_RANDOM_BYTES))
  await insertAccount(world.sql, { id: uuid, name: 'bench' })
  await insertApiKey(world.sql, {
    id: randomUUID(),
    account: uuid,
    mode: 'test',
    digest: apiKeyDigest(key),
    ending: apiKeyEnding(key),
    allowed: null,
  })
  // The limit is the machine's, not the account's.
  await world.sql`INSERT INTO command.account_settings (account, mode, api_rps) VALUES (${uuid}, 'test', 1000000)`
  const account = encodeId('acc', uuid)
  const port = await freePort()
  const baseUrl = `http://127.0.0.1:${port}`
  const api = await world.start(
    'command-api',
    { HUB_PORT: String(port), HUB_BASE_URL: baseUrl, HUB_REDIS_URL: redisUrl },
    flags,
  )

  const costing = async (server: number | null, plan: ReaderPlan): Promise<Read> => {
    const before = [server === null ? 0 : cpuMs(server), world.postgresCpu()] as const
    const result = await runReader(plan)
    if (result.failed > 0) throw new Error(`${result.failed} reads failed`)
    const answers = result.perSecond * (plan.durationMs / 1000)
    return {
      ...result,
      serverCpu: server === null ? result.cpu : ((cpuMs(server) - before[0]) * 1000) / answers,
      postgresCpu: ((world.postgresCpu() - before[1]) * 1000) / answers,
    }
  }
  const http = { kind: 'http', baseUrl, key } as const
  const bare = (statement: string) =>
    ({ kind: 'sql', databaseUrl: world.databaseUrl, statement, connections: CONNECTIONS }) as const

  return {
    account,
    messages: ({ messages }: FilledTables, durationMs: number): Promise<Read> =>
      costing(api.pid, {
        wanted: messages.map((id) => [`/v1/messages/${id}`]),
        readers: MESSAGE_READERS,
        durationMs,
        from: http,
      }),
    bareMessages: ({ messages }: FilledTables, durationMs: number): Promise<Read> =>
      costing(null, {
        wanted: messages.map((id) => [decodeId('msg', id)!]),
        readers: MESSAGE_READERS,
        durationMs,
        from: bare(MESSAGE),
      }),
    pages: ({ cursors }: FilledTables, durationMs: number): Promise<Read> =>
      costing(api.pid, {
        wanted: cursors.map(({ event }) => [`/v1/events?limit=${PAGE}&starting_after=${event}`]),
        readers: PAGE_READERS,
        durationMs,
        from: http,
      }),
    barePages: ({ cursors }: FilledTables, durationMs: number): Promise<Read> =>
      costing(null, {
        wanted: cursors.map(({ at, sequence }) => [String(sequence), at]),
        readers: PAGE_READERS,
        durationMs,
        from: bare(pageOf(account)),
      }),
    end: () => api.kill('SIGTERM'),
  }
}
export type Reading = Awaited<ReturnType<typeof makeReading>>
