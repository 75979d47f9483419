/**
 * What has to be done now and then, whoever sends: small, bounded, and repeated after a failure. What is removed after its time is
 * retention's (`@hub/store`), which runs elsewhere.
 */
import { encodeId } from '@hub/domain'
import {
  type EncryptedColumn,
  reencryptColumn,
  Sql,
  type StorageError,
  MasterKeyEncryption,
} from '@hub/store'
import { Cause, Duration, Effect, Layer, Schedule } from 'effect'

/** Days of the ledger made in advance: a weekend without a running process loses nothing. */
const DAYS_AHEAD = 3
const LEDGER_EVERY = Duration.hours(1)
/** Creating partitions waits for locks; nobody waits for it. */
const DEADLINE = { deadline: Duration.seconds(8) }

/** Another pass, while there are boxes under a previous master key or a pass failed. */
const RESEAL_AGAIN_AFTER = Duration.minutes(10)

const uuidKey = { key: 'id', keyType: 'uuid' } as const
const webhookSecret = {
  ...uuidKey,
  table: 'webhooks.endpoints',
  purpose: 'webhook-secret',
  aad: (uuid: string) => encodeId('we', uuid),
} as const

/**
 * Everything that is encrypted at rest, but for idempotent answers, which live for a day: nothing new comes under a previous key, so
 * these are gone by themselves.
 */
const BOXES: ReadonlyArray<EncryptedColumn> = [
  { ...webhookSecret, column: 'secret' },
  { ...webhookSecret, column: 'previous_secret' },
  {
    table: 'command.sealing_keys',
    column: 'wrapped',
    key: 'id',
    keyType: 'text',
    purpose: 'sealing-key',
    aad: (id) => id,
  },
  {
    table: 'read.personal_data',
    column: 'sealed',
    key: 'message_id',
    keyType: 'uuid',
    purpose: 'personal-data',
    aad: (uuid) => encodeId('msg', uuid),
    payloadKeyColumn: 'sealing_key',
  },
]

/** Answers under previous master keys that have not lived out their day. */
const oldAnswers = (sql: Sql['Service'], prefix: Uint8Array) =>
  sql.run(async (q) => {
    const rows = await q`
      SELECT 1 FROM command.idempotency_keys
       WHERE answer IS NOT NULL AND expires_at > now()
         AND substring(answer FROM 1 FOR ${prefix.length}) <> ${Buffer.from(prefix)}::bytea LIMIT 1`
    return rows.length > 0
  }, DEADLINE)

/** One pass over all of them. True when nothing is left that a previous master key is needed for. */
export const resealAll = Effect.gen(function* () {
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  let resealed = 0
  let unreadable = 0
  for (const column of BOXES) {
    const done = yield* reencryptColumn(column)
    resealed += done.reencrypted
    unreadable += done.unreadable
  }
  if (resealed > 0) {
    yield* Effect.annotateLogs(Effect.logInfo('sealed again under the current master key'), {
      boxes: resealed,
    })
  }
  if (unreadable > 0) {
    yield* Effect.annotateLogs(
      Effect.logError('boxes that no master key opens: is one missing in HUB_PREVIOUS_MASTER_KEYS?'),
      { boxes: unreadable },
    )
  }
  // What was written while this went on, by a process that still had the previous key, is found by the next pass.
  const isDone = resealed === 0 && unreadable === 0 && !(yield* oldAnswers(sql, masterKey.keyPrefix))
  if (isDone)
    yield* Effect.logInfo('nothing is left under a previous master key: HUB_PREVIOUS_MASTER_KEYS can go')
  return isDone
})

/** Goes through everything until it is done, if there is a previous key at all. */
const resealing = Effect.gen(function* () {
  const { hasPreviousKeys } = yield* MasterKeyEncryption
  if (!hasPreviousKeys) return
  yield* resealAll.pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(Effect.logWarning('sealing under the current master key failed', cause), false),
    ),
    Effect.repeat({ until: (done) => done, schedule: Schedule.spaced(RESEAL_AGAIN_AFTER) }),
    Effect.forkScoped,
  )
})

/** Runs at once and then on its schedule, whatever became of the run before. */
const repeated = <A>(name: string, every: Duration.Duration, job: Effect.Effect<A, StorageError>) =>
  job.pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.annotateLogs(Effect.logWarning('maintenance failed', cause), { job: name }),
    ),
    Effect.repeat(Schedule.spaced(every)),
    Effect.forkScoped,
  )

export const maintenanceLayer: Layer.Layer<never, never, Sql | MasterKeyEncryption> = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* Sql
    yield* resealing
    yield* repeated(
      'ledger partitions',
      LEDGER_EVERY,
      sql.run((q) => q`SELECT command.ensure_acceptance_days(${DAYS_AHEAD})`, DEADLINE),
    )
  }),
)
