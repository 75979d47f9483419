/**
 * The dispatcher's ports to PostgreSQL and to the payload keys, in memory. Each call is a request to
 * a server, so it can fail, be late, and be executed without an answer.
 */
import { memorySharedTexts, SharedTexts, type SharedTextsShape } from '@hub/counters'
import { DispatcherStore } from '@hub/dispatcher'
import { type DispatcherTables, type LookedUpModel, memoryStore } from '@hub/dispatcher/testing'
import { PAYLOAD_KEY_PERIODS } from '@hub/kafka'
import { DecryptionFailed, PayloadEncryption, type PayloadKey, RECIPIENT_SHARES } from '@hub/store'
import { Context, Effect, Layer } from 'effect'
import { redisCall, statement } from '../world/statement.ts'
import type { Network } from '../world/network.ts'
import type { SimulatedProcess } from '../world/process.ts'
import type { Simulation } from '../world/simulation.ts'

const DAY = 86_400_000

/** A payload and the key that encrypts it, as text. Nothing in a simulation is secret. */
interface Envelope {
  readonly key: string
  readonly aad: string
  readonly plain: string
}

const seal = (key: string, aad: string, plain: Uint8Array): Buffer =>
  Buffer.from(JSON.stringify({ key, aad, plain: Buffer.from(plain).toString('base64') } satisfies Envelope))

/** The plain text of an encrypted payload. */
export const plainOf = (ciphertext: Uint8Array): Buffer =>
  Buffer.from((JSON.parse(Buffer.from(ciphertext).toString()) as Envelope).plain, 'base64')

const keyOf = (id: string, usableUntil: number): PayloadKey => ({
  id,
  usableUntil,
  encrypt: (aad, plain) => seal(id, aad, plain),
})

/** The key of a message class at a time. Its id contains the time. */
export const messageKey = (messageClass: 'otp' | 'service', now: number): PayloadKey => {
  const { replacedAfterMs } = PAYLOAD_KEY_PERIODS[messageClass]
  const from = now - (now % replacedAfterMs)
  return keyOf(`${messageClass}-${from}`, from + replacedAfterMs)
}

const destroyedAt = (keyId: string): number => {
  const [purpose, from] = keyId.split('-')
  return purpose === 'otp' || purpose === 'service'
    ? Number(from) + PAYLOAD_KEY_PERIODS[purpose].retentionMs
    : Number.POSITIVE_INFINITY
}

export const payloadEncryption = (
  network: Network,
  process: SimulatedProcess,
): PayloadEncryption['Service'] => {
  const today = () => process.wallClock() - (process.wallClock() % DAY)
  const fetched = new Set<string>()
  return {
    currentKey: (purpose) =>
      Effect.sync(() =>
        purpose === 'otp' || purpose === 'service'
          ? messageKey(purpose, process.wallClock())
          : keyOf(`${purpose}-${today()}`, today() + DAY),
      ),
    keyOfDay: (at) => Effect.succeed(keyOf(`personal-${at - (at % DAY)}`, at + DAY)),
    keepReady: Effect.never,
    recipientShareKeys: statement(network, process, 'read report keys', () =>
      Array.from({ length: RECIPIENT_SHARES }, (_, share) =>
        keyOf(`report-${today()}-${share}`, today() + DAY),
      ),
    ),
    decrypt: (keyId, aad, ciphertext) =>
      Effect.gen(function* () {
        if (!fetched.has(keyId)) {
          yield* statement(network, process, 'read a payload key', () => undefined)
          fetched.add(keyId)
        }
        if (destroyedAt(keyId) <= process.wallClock()) return null
        const envelope = JSON.parse(Buffer.from(ciphertext).toString()) as Envelope
        if (envelope.key !== keyId || envelope.aad !== aad) {
          return yield* new DecryptionFailed({ purpose: 'payload', reason: 'damaged' })
        }
        return Buffer.from(envelope.plain, 'base64')
      }),
  }
}

/** All stores of a dispatcher process. */
export const dispatcherStores = (
  simulation: Simulation,
  process: SimulatedProcess,
  model: LookedUpModel,
  { tables, texts }: { readonly tables: DispatcherTables; readonly texts: SharedTextsShape },
) => {
  const { network } = simulation
  const store = memoryStore(model, tables, (name, execute) => statement(network, process, name, execute))
  return Context.make(DispatcherStore, store).pipe(
    Context.add(PayloadEncryption, payloadEncryption(network, process)),
    Context.add(SharedTexts, {
      change: (name, ttlMs, change) =>
        redisCall(simulation, process, 'change a text', () => texts.change(name, ttlMs, change)),
      read: (name) => redisCall(simulation, process, 'read a text', () => texts.read(name)),
    }),
  )
}

/** The shared texts in Redis. */
export const sharedTexts = (): SharedTextsShape =>
  Effect.runSync(Effect.provide(SharedTexts, Layer.fresh(memorySharedTexts)))
