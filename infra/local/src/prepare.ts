/** Creates the schema, the seeded accounts and the topics before the apps start. */
import { apiKeyDigest, apiKeyEnding } from '@hub/domain'
import { createTopics, topicCatalogue } from '@hub/kafka'
import {
  CommandAccounts,
  CommandApiKeys,
  CommandSenders,
  CommandTemplates,
  makeSql,
  migrate,
} from '@hub/store'
import { Effect, Redacted } from 'effect'
import { UserError } from './user-error.ts'
import { newUuid, type Secrets } from './secrets.ts'

/** The seeded sender and templates. */
const SENDER = 'HUB'
const TEMPLATES = [
  { name: 'otp_code', class: 'otp', body: 'Code {{code}}' },
  { name: 'order_ready', class: 'service', body: 'Заказ {{order}} готов' },
] as const
const ACCOUNT_NAMES = ['Local', 'Local, the other'] as const

/** The statements run one after another. */
const SEED_CONNECTIONS = 1

/**
 * Seeds two accounts. Each has a test key, a live key, and in both modes the sender and both
 * templates. Existing rows do not change, so limits that a user changed survive a restart.
 */
export const seed = Effect.fn('seed')(function* (databaseUrl: string, accounts: Secrets['accounts']) {
  const sql = yield* makeSql(Redacted.make(databaseUrl), SEED_CONNECTIONS, 'hub-seed')
  yield* sql.transaction(async (tx) => {
    for (const [index, keys] of accounts.entries()) {
      await CommandAccounts.insert(tx, { id: keys.account, name: ACCOUNT_NAMES[index] ?? '' })
      for (const mode of ['test', 'live'] as const) {
        const of = { account: keys.account, mode }
        const key = keys[mode]
        await CommandApiKeys.insert(tx, {
          ...of,
          id: newUuid('key'),
          digest: apiKeyDigest(key),
          ending: apiKeyEnding(key),
          allowed: null,
        })
        await CommandSenders.insert(tx, {
          ...of,
          id: newUuid('snd'),
          name: SENDER,
          registration: null,
          status: 'registered',
        })
        for (const template of TEMPLATES) {
          await CommandTemplates.insert(tx, {
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

/** Runs an effect as a promise. Fails with a `UserError`. */
const run = async <E extends { readonly _tag: string; readonly detail?: string; readonly code?: string }>(
  what: string,
  effect: Effect.Effect<unknown, E>,
  signal: AbortSignal,
): Promise<void> => {
  const failure = await Effect.runPromise(
    Effect.match(effect, {
      onFailure: (error) => {
        const detail = error.detail ?? error.code
        return new UserError(`${what}: ${error._tag}${detail === undefined ? '' : ` (${detail})`}.`)
      },
      onSuccess: () => null,
    }),
    { signal },
  )
  if (failure !== null) throw failure
}

/** Migrates and seeds the database. Fails with a `UserError`. */
export const prepareDatabase = async (
  databaseUrl: string,
  secrets: Secrets,
  signal: AbortSignal,
): Promise<void> => {
  await run('The database could not be migrated', migrate(databaseUrl), signal)
  await run('The accounts could not be seeded', seed(databaseUrl, secrets.accounts), signal)
}

/** Creates the missing topics of the catalogue. Fails with a `UserError`. */
export const prepareTopics = (
  brokers: ReadonlyArray<string>,
  topics: { readonly prefix: string; readonly partitions: number; readonly replicationFactor: number },
  signal: AbortSignal,
): Promise<void> =>
  run(
    'The topics could not be created',
    createTopics({ brokers, clientId: 'hub-local' }, topicCatalogue(topics)),
    signal,
  )
