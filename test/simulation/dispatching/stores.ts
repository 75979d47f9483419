/**
 * The dispatcher's ports to PostgreSQL and to the payload keys, in memory. Each call is a request to
 * a server, so it can fail, be late, and be executed without an answer.
 */
import { memorySharedTexts, SharedTexts, type SharedTextsShape } from '@hub/counters'
import { AccountWeights, InboundMessages, type KnownMessage, KnownMessages, OptOuts } from '@hub/dispatcher'
import { type TopicNames, PAYLOAD_KEY_PERIODS } from '@hub/kafka'
import { DecryptionFailed, PayloadEncryption, type PayloadKey, RECIPIENT_SHARES } from '@hub/store'
import { Context, Effect, Layer } from 'effect'
import { redisCall, statement } from '../world/statement.ts'
import type { Network } from '../world/network.ts'
import type { SimulatedProcess } from '../world/process.ts'
import type { Simulation } from '../world/simulation.ts'
import { inboundStores, type InboundTables } from './inbound.ts'
import type { LookedUpModel } from './read-model.ts'

const DAY = 86_400_000

const knownMessages = (
  network: Network,
  process: SimulatedProcess,
  topics: TopicNames,
  model: LookedUpModel,
): KnownMessages['Service'] => {
  const lanes = [topics.acceptedOtp, topics.acceptedService]
  const find = (reference: string | null, operatorId: string, recipient: string | null) => {
    if (reference !== null) return model.messages.get(reference)
    return [...model.messages.values()].findLast(
      ({ accepted, state }) =>
        state?.operatorIds.includes(operatorId) === true &&
        (recipient === null || accepted === null || accepted.recipient === recipient),
    )
  }
  return {
    handedOver: (questions) =>
      statement(network, process, 'read whether messages were handed over', () =>
        questions.map(({ id, lane, laneOffset, logOffset, shard }) => {
          const isProjected =
            model.position(lanes[lane]!, shard) > laneOffset &&
            model.position(topics.messages, shard) >= logOffset
          if (!isProjected) return null
          return (model.messages.get(id)?.state?.status ?? 'accepted') !== 'accepted'
        }),
      ),
    reportedOn: (questions) =>
      statement(network, process, 'read messages of reports', () =>
        questions.map(({ logOffset, operator, operatorId, recipient, reference, shard }) => {
          if (model.position(topics.messages, shard) < logOffset) return null
          const message = find(reference, operatorId, recipient)
          if (message === undefined || message.accepted === null || message.state === null) return 'notFound'
          const { accepted, state } = message
          if (recipient !== null && recipient !== accepted.recipient) return 'notFound'
          return {
            id: message.id,
            recipient: accepted.recipient,
            class: accepted.class,
            status: state.status,
            reason: state.reason,
            attempts: state.attempts,
            seen: state.seen,
            operator: state.operator ?? operator,
            operatorIds: state.operatorIds.length > 0 ? state.operatorIds : [operatorId],
          } satisfies KnownMessage
        }),
      ),
    recipients: (questions) =>
      statement(network, process, 'read recipients', () =>
        questions.map(
          ({ operatorId, recipient, reference }) =>
            find(reference, operatorId, recipient)?.accepted?.recipient ?? null,
        ),
      ),
  }
}

/** A payload and the key that encrypts it, as text. Nothing in a simulation is secret. */
interface Sealed {
  readonly key: string
  readonly aad: string
  readonly plain: string
}

const seal = (key: string, aad: string, plain: Uint8Array): Buffer =>
  Buffer.from(JSON.stringify({ key, aad, plain: Buffer.from(plain).toString('base64') } satisfies Sealed))

/** The plain text of a sealed payload. */
export const plainOf = (sealed: Uint8Array): Buffer =>
  Buffer.from((JSON.parse(Buffer.from(sealed).toString()) as Sealed).plain, 'base64')

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
        const sealed = JSON.parse(Buffer.from(ciphertext).toString()) as Sealed
        if (sealed.key !== keyId || sealed.aad !== aad) {
          return yield* new DecryptionFailed({ purpose: 'payload', reason: 'damaged' })
        }
        return Buffer.from(sealed.plain, 'base64')
      }),
  }
}

/** All stores of a dispatcher process. */
export const dispatcherStores = (
  simulation: Simulation,
  process: SimulatedProcess,
  topics: TopicNames,
  model: LookedUpModel,
  { inbound, texts }: { readonly inbound: InboundTables; readonly texts: SharedTextsShape },
) => {
  const { network } = simulation
  const { inboundMessages, optOuts } = inboundStores(simulation, process, inbound)
  return Context.make(KnownMessages, knownMessages(network, process, topics, model)).pipe(
    Context.add(PayloadEncryption, payloadEncryption(network, process)),
    Context.add(AccountWeights, { read: statement(network, process, 'read weights', () => []) }),
    Context.add(OptOuts, optOuts),
    Context.add(InboundMessages, inboundMessages),
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
