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
  type Queries,
  StorageUnavailable,
} from '@hub/store'
import { Duration, Effect, Redacted, Schedule } from 'effect'
import { UserError } from './user-error.ts'
import { newUuid, type Secrets } from './secrets.ts'
import type { ReportProgress } from './stack.ts'

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
 * PostgreSQL answers late while it starts on a busy machine: it starts sessions, and writes the schema to the disk.
 * The deadline of a client's request, 2.5 s, is too short for that. The servers get the same time to start.
 */
const DATABASE_WITHIN_MS = 60_000
/** The migration takes a second on an idle machine, and the creation of the accounts a tenth. */
const NOTICE_AFTER_MS = 5000
const TRY_AGAIN_AFTER = Duration.millis(500)

/**
 * Seeds two accounts. Each has a test key, a live key, and in both modes the sender and both
 * templates. Existing rows do not change, so limits that a user changed survive a restart.
 */
const seed = Effect.fn('seed')(function* (databaseUrl: string, accounts: Secrets['accounts']) {
  const sql = yield* makeSql(Redacted.make(databaseUrl), SEED_CONNECTIONS, 'hub-seed')
  const insert = async (tx: Queries): Promise<void> => {
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
          scopes: null,
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
  }
  yield* sql.transaction(insert, { deadline: Duration.millis(DATABASE_WITHIN_MS) })
}, Effect.scoped)

/** The failures of Kafka and PostgreSQL. They contain codes, and no data. */
interface Failure {
  readonly _tag: string
  readonly detail?: string
  readonly code?: string
}

/** Waits for PostgreSQL while it is unavailable or slow, and then says so. */
const withPatience = <E extends Failure>(
  step: string,
  effect: Effect.Effect<unknown, E>,
  report: ReportProgress,
): Effect.Effect<unknown, E> =>
  Effect.gen(function* () {
    const until = performance.now() + DATABASE_WITHIN_MS
    const notice = Effect.sync(() =>
      report(
        `${step} takes more than ${NOTICE_AFTER_MS / 1000} s, because PostgreSQL is slow: waiting for up to ${DATABASE_WITHIN_MS / 1000} s`,
      ),
    )
    yield* notice.pipe(Effect.delay(Duration.millis(NOTICE_AFTER_MS)), Effect.forkScoped)
    return yield* Effect.retry(effect, {
      while: (error) =>
        error instanceof StorageUnavailable && error.reason !== 'failed' && performance.now() < until,
      schedule: Schedule.spaced(TRY_AGAIN_AFTER),
    })
  }).pipe(Effect.scoped)

/** Runs an effect as a promise. Fails with a `UserError`. */
const run = async (
  what: string,
  effect: Effect.Effect<unknown, Failure>,
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
  report: ReportProgress,
): Promise<void> => {
  const migration = withPatience('The migration of the database', migrate(databaseUrl), report)
  await run('The database could not be migrated', migration, signal)
  const seeding = withPatience('The creation of the accounts', seed(databaseUrl, secrets.accounts), report)
  await run('The accounts could not be seeded', seeding, signal)
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
