/**
 * The payload keys of messages. Only Kafka stores them, in topics that it deletes on time, so that
 * no file of PostgreSQL ever contains one (docs/decisions/encryption.md#payload-keys). Each process creates
 * its own keys and reads those of the others.
 */
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { MESSAGE_CLASSES, type MessageClass } from '@hub/domain'
import { kafkaCrashPoint, type KafkaUnavailable, PAYLOAD_KEY_PERIODS, PayloadKeyTopics } from '@hub/kafka'
import { Clock, Effect, Result, Semaphore } from 'effect'
import { recordKeyAge } from './key-age.ts'
import { PayloadKeyUnusable } from './key-providers/key-provider.port.ts'
import { MasterKeyEncryption } from './master-key-encryption.ts'
import { StorageUnavailable } from './sql.ts'

const MINUTE = 60_000

/** How often command-api replaces old keys, and reads the keys of other processes. */
const READY_EVERY_MS = MINUTE
/** After a failure, the next attempt to create a key. Meanwhile sends do not wait for Kafka. */
const CREATE_AGAIN_MS = 5000
/** The clocks of two processes, and the time in an id, which is in minutes. */
const ID_TIME_TOLERANCE_MS = 10 * MINUTE
/**
 * How long the hub asks again for a key that should exist. A broker that has lost its leadership
 * without knowing it may not have the newest records.
 */
const ASK_AGAIN_FOR_MS = 30_000
/** After this time, a missing key is asked for again. So a process loses 30 s in ten minutes. */
const FORGET_MISS_MS = 10 * MINUTE

/** Lost keys that a process logs: more than two days have. */
const MAX_LOST_KEYS = 1000

const atKeyStored = kafkaCrashPoint('command-api.payload-key-stored')

interface CreatedKey {
  readonly id: string
  readonly at: number
  readonly key: KeyObject
}

interface KnownKey {
  readonly wrapped: Uint8Array
  readonly readableUntil: number
  key: KeyObject | null
}

const ID = /^(otp|service)-(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}Z)-[0-9a-f]{16}$/u

const newId = (messageClass: MessageClass, at: number): string =>
  `${messageClass}-${new Date(at).toISOString().slice(0, 16)}Z-${randomBytes(8).toString('hex')}`

/** The class and the time of creation in an id; `null` for the id of another key. */
const parseId = (id: string): { readonly messageClass: MessageClass; readonly at: number } | null => {
  const [, messageClass, time] = ID.exec(id) ?? []
  return time === undefined ? null : { messageClass: messageClass as MessageClass, at: Date.parse(time) }
}

/** Whether the id is that of a message key. Other keys are in `command.sealing_keys`. */
export const isMessageKey = (id: string): boolean => ID.test(id)

const asStorageError = (error: KafkaUnavailable | StorageUnavailable): StorageUnavailable => {
  if (error._tag === 'StorageUnavailable') return error
  const { detail, reason } = error
  return new StorageUnavailable({
    reason: reason === 'timeout' ? 'timeout' : reason === 'refused' ? 'unreachable' : 'failed',
    detail: `payload keys: ${detail}`,
  })
}

export const makeMessageKeys = Effect.gen(function* () {
  const topics = yield* PayloadKeyTopics
  const masterKey = yield* MasterKeyEncryption
  const scope = yield* Effect.scope

  const known = new Map<string, KnownKey>()
  const stateOf = (messageClass: MessageClass) => ({
    messageClass,
    current: null as CreatedKey | null,
    /** Concurrent callers create one key, and share one read. */
    creation: Semaphore.makeUnsafe(1),
    reading: Semaphore.makeUnsafe(1),
    isReplacing: false,
    createAgainAt: 0,
    failure: null as KafkaUnavailable | StorageUnavailable | null,
    /** The calls that want a read, and how many of them the last read has answered. */
    calls: 0,
    answeredCalls: 0,
  })
  const states = { otp: stateOf('otp'), service: stateOf('service') }
  let firstMissAt = Number.NEGATIVE_INFINITY
  /** The lost keys that are in the log. */
  const lost = new Set<string>()

  const create = Effect.fnUntraced(function* (state: ReturnType<typeof stateOf>) {
    const { messageClass } = state
    const at = yield* Clock.currentTimeMillis
    const id = newId(messageClass, at)
    const secret = randomBytes(32)
    const key = createSecretKey(secret)
    const wrapped = yield* masterKey.wrap('payload-key', [{ aad: id, bytes: secret }]).pipe(
      Effect.map(([only]) => only!),
      Effect.ensuring(Effect.sync(() => secret.fill(0))),
      Effect.tap((bytes) => atKeyStored(topics.append(messageClass, { id, wrapped: bytes, at }))),
      Effect.tapError((failure) =>
        Effect.sync(() => {
          state.createAgainAt = at + CREATE_AGAIN_MS
          state.failure = failure
        }),
      ),
    )
    known.set(id, { wrapped, readableUntil: at + PAYLOAD_KEY_PERIODS[messageClass].retentionMs, key })
    state.current = { id, at, key }
    state.failure = null
    return state.current
  })

  /** Replaces the key in the background: sends continue with the old key. */
  const replace = (state: ReturnType<typeof stateOf>) => {
    state.isReplacing = true
    return create(state).pipe(
      Effect.catch((error) =>
        Effect.logWarning('payload keys: no new key was stored; the last one stays in use', error),
      ),
      Effect.ensuring(
        Effect.sync(() => {
          state.isReplacing = false
        }),
      ),
      Effect.forkIn(scope),
    )
  }

  /** The key for new messages. */
  const current = Effect.fnUntraced(function* (messageClass: MessageClass) {
    const state = states[messageClass]
    const { replacedAfterMs, usedAtMostMs } = PAYLOAD_KEY_PERIODS[messageClass]
    const now = yield* Clock.currentTimeMillis
    const usable = () =>
      state.current !== null && now < state.current.at + usedAtMostMs ? state.current : null
    const held = usable()
    if (
      held !== null &&
      now >= held.at + replacedAfterMs &&
      !state.isReplacing &&
      now >= state.createAgainAt
    ) {
      yield* replace(state)
    }
    const key =
      held ??
      (yield* state.creation.withPermits(1)(
        Effect.suspend(() => {
          const created = usable()
          if (created !== null) return Effect.succeed(created)
          if (state.failure !== null && now < state.createAgainAt) return Effect.fail(state.failure)
          return create(state)
        }),
      ))
    const age = Math.max(0, now - key.at) / 1000
    yield* recordKeyAge(messageClass, age)
    return key
  })

  /** Reads the keys of a class, once for all callers that wait. */
  const read = Effect.fnUntraced(function* (messageClass: MessageClass) {
    const state = states[messageClass]
    const call = ++state.calls
    yield* state.reading.withPermits(1)(
      Effect.suspend(() => {
        // A read that began after this call has seen every key that this call needs.
        if (state.answeredCalls >= call) return Effect.void
        const answers = state.calls
        return Effect.flatMap(topics.read(messageClass), (keys) =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            for (const [id, { readableUntil }] of known) if (readableUntil <= now) known.delete(id)
            for (const { id, readableUntil, wrapped } of keys) {
              if (parseId(id)?.messageClass !== messageClass) continue
              known.set(id, { wrapped, readableUntil, key: known.get(id)?.key ?? null })
            }
            state.answeredCalls = answers
          }),
        )
      }),
    )
  })

  /** A key that should exist is not in the topic. After a while it counts as lost. */
  const missing = Effect.fnUntraced(function* (id: string, now: number) {
    if (now - firstMissAt > FORGET_MISS_MS) firstMissAt = now
    if (now - firstMissAt < ASK_AGAIN_FOR_MS) {
      return yield* new StorageUnavailable({ reason: 'failed', detail: 'payload keys: not found yet' })
    }
    if (!lost.has(id) && lost.size < MAX_LOST_KEYS) {
      lost.add(id)
      yield* Effect.annotateLogs(
        Effect.logError('payload keys: a key is lost; the messages under it wait until their lifetime ends'),
        { payload_key: id },
      )
    }
    return yield* new PayloadKeyUnusable({ keyId: id, reason: 'not_found' })
  })

  /** A message key by id. `null` when it was destroyed. */
  const byId = Effect.fnUntraced(function* (id: string) {
    const parsed = parseId(id)
    if (parsed === null) return null
    const { at, messageClass } = parsed
    const now = yield* Clock.currentTimeMillis
    if (!known.has(id)) {
      if (at + PAYLOAD_KEY_PERIODS[messageClass].retentionMs + ID_TIME_TOLERANCE_MS <= now) return null
      yield* Effect.mapError(read(messageClass), asStorageError)
    }
    const found = known.get(id)
    if (found === undefined) return yield* missing(id, now)
    if (found.readableUntil <= now) return null
    if (found.key !== null) return found.key
    const [opened] = yield* masterKey.unwrap('payload-key', [{ aad: id, bytes: found.wrapped }])
    if (opened === undefined || Result.isFailure(opened)) {
      return yield* new PayloadKeyUnusable({ keyId: id, reason: opened?.failure ?? 'damaged' })
    }
    found.key = createSecretKey(opened.success)
    return found.key
  })

  /** Has keys for new messages, and the keys of other processes, before Kafka is unavailable. */
  const keepReady = Effect.forEach(MESSAGE_CLASSES, (messageClass) =>
    Effect.catch(Effect.andThen(current(messageClass), read(messageClass)), (error) =>
      Effect.annotateLogs(
        Effect.logDebug('payload keys: Kafka or the transit engine does not answer now', error),
        {
          class: messageClass,
        },
      ),
    ),
  ).pipe(Effect.andThen(Effect.sleep(READY_EVERY_MS)), Effect.forever)

  return {
    byId,
    keepReady,
    current: (messageClass: MessageClass) => Effect.mapError(current(messageClass), asStorageError),
  }
})

/**
 * The payload keys in Kafka that are not destroyed, and those of them that the master keys of this
 * process do not open, with the reason.
 */
export const examinePayloadKeys = Effect.gen(function* () {
  const topics = yield* PayloadKeyTopics
  const masterKey = yield* MasterKeyEncryption
  const now = yield* Clock.currentTimeMillis
  const all = (yield* Effect.forEach(MESSAGE_CLASSES, topics.read)).flat()
  const keys = all.filter(({ readableUntil }) => readableUntil > now)
  const opened = yield* masterKey.unwrap(
    'payload-key',
    keys.map(({ id, wrapped }) => ({ aad: id, bytes: wrapped })),
  )
  const unusable = opened.flatMap((result, index) =>
    Result.isFailure(result)
      ? [new PayloadKeyUnusable({ keyId: keys[index]!.id, reason: result.failure })]
      : [],
  )
  return { keys: keys.length, unusable }
})
