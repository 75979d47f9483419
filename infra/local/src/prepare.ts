/** What a hub's servers must hold before its apps start: the schema, the seeded accounts, the topics. */
import { randomBytes } from 'node:crypto'
import { apiKeyDigest, apiKeyEnding, decodeId, type IdPrefix, newId } from '@hub/domain'
import { createTopics, topicCatalogue } from '@hub/kafka'
import { insertAccount, insertApiKey, insertSender, insertTemplate, makeSql, migrate } from '@hub/store'
import { Effect, Redacted } from 'effect'
import { UserError } from './user-error.ts'
import type { Secrets } from './secrets.ts'

/** Local seeds of the contract decisions. */
const SENDER = 'HUB'
const TEMPLATES = [
  { name: 'otp_code', class: 'otp', body: 'Code {{code}}' },
  { name: 'order_ready', class: 'service', body: 'Заказ {{order}} готов' },
] as const
const ACCOUNT_NAMES = ['Local', 'Local, the other'] as const

/** One statement after another on one connection. */
const SEED_CONNECTIONS = 1

const newUuid = (prefix: IdPrefix): string => {
  const uuid = decodeId(prefix, newId(prefix, Date.now(), randomBytes(10)))
  if (uuid === null) throw new Error('a new id does not decode')
  return uuid
}

/**
 * Two accounts, each with a test and a live key, the sender, and both templates in both modes, ready to use. What is
 * there already stays as it is: limits that were changed by hand survive a restart.
 */
export const seed = Effect.fn('seed')(function* (databaseUrl: string, accounts: Secrets['accounts']) {
  const sql = yield* makeSql(Redacted.make(databaseUrl), SEED_CONNECTIONS, 'hub-seed')
  yield* sql.transaction(async (tx) => {
    for (const [index, keys] of accounts.entries()) {
      await insertAccount(tx, { id: keys.account, name: ACCOUNT_NAMES[index] ?? '' })
      for (const mode of ['test', 'live'] as const) {
        const of = { account: keys.account, mode }
        const key = keys[mode]
        await insertApiKey(tx, {
          ...of,
          id: newUuid('key'),
          digest: apiKeyDigest(key),
          ending: apiKeyEnding(key),
          allowed: null,
        })
        await insertSender(tx, {
          ...of,
          id: newUuid('snd'),
          name: SENDER,
          registration: null,
          status: 'registered',
        })
        for (const template of TEMPLATES) {
          await insertTemplate(tx, {
            ...of,
            ...template,
            id: newUuid('tpl'),
            sender: SENDER,
            language: null,
            status: 'approved',
          })
        }
      }
    }
  })
}, Effect.scoped)

/** Runs an effect where the launcher, which is plain asynchronous code, meets the packages. */
const run = async <E extends { readonly _tag: string; readonly detail?: string; readonly code?: string }>(
  what: string,
  effect: Effect.Effect<unknown, E>,
  signal: AbortSignal,
): Promise<void> => {
  const problem = await Effect.runPromise(
    Effect.match(effect, {
      onFailure: (error) => {
        const detail = error.detail ?? error.code
        return new UserError(`${what}: ${error._tag}${detail === undefined ? '' : ` (${detail})`}.`)
      },
      onSuccess: () => null,
    }),
    { signal },
  )
  if (problem !== null) throw problem
}

/** Migrates and seeds. Fails with a `UserError`; the signal interrupts it. */
export const prepareDatabase = async (
  databaseUrl: string,
  secrets: Secrets,
  signal: AbortSignal,
): Promise<void> => {
  await run('The database could not be migrated', migrate(databaseUrl), signal)
  await run('The accounts could not be seeded', seed(databaseUrl, secrets.accounts), signal)
}

/** Creates the topics of the catalogue that are missing; one broker holds one replica. Fails with a `UserError`; the signal interrupts it. */
export const prepareTopics = (
  brokers: ReadonlyArray<string>,
  topics: { readonly prefix: string; readonly partitions: number },
  signal: AbortSignal,
): Promise<void> =>
  run(
    'The topics could not be created',
    createTopics({ brokers, clientId: 'hub-local' }, topicCatalogue({ ...topics, replicationFactor: 1 })),
    signal,
  )
