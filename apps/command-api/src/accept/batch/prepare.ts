/** Step 3 of an acceptance batch: encrypts and encodes what is new. */
import {
  accept,
  type Lifetimes,
  type MessageAccepted,
  type MessageClass,
  numberRangeOf,
  republish,
} from '@hub/domain'
import { acceptedRecord, type TopicNames } from '@hub/kafka'
import { encodePayload, type PayloadEncryption, type PayloadKey } from '@hub/store'
import { Effect, Option } from 'effect'
import { acceptedView } from '../../messages/message.ts'
import type { MessageDraft } from '../check/checked-send.ts'
import { type DecidedSend, messageIdOf } from './decide-and-limit.ts'
import { isNew, type NewSendDecision } from './decide.ts'
import { reservationOf } from './limits.ts'
import type { PreparedSend } from './prepared-send.ts'
import type { PendingSend } from '../request.ts'

export type PayloadKeys = ReadonlyMap<MessageClass, PayloadKey>

/**
 * The payload keys for the classes of the sends. A class is absent if there is no key for it now:
 * Kafka has been unavailable for longer than the last key may be used.
 */
export const payloadKeys = Effect.fnUntraced(function* (
  encryption: PayloadEncryption['Service'],
  sends: ReadonlyArray<PendingSend>,
) {
  const keys = new Map<MessageClass, PayloadKey>()
  for (const messageClass of new Set(sends.map(({ checked }) => checked.class))) {
    const key = yield* Effect.option(
      Effect.tapError(encryption.currentKey(messageClass), (error) =>
        Effect.annotateLogs(
          Effect.logError(
            'acceptor: no payload key can be stored; the sends of this class are refused',
            error,
          ),
          { class: messageClass },
        ),
      ),
    )
    if (Option.isSome(key)) keys.set(messageClass, key.value)
  }
  return keys as PayloadKeys
})

/** The plain text of the payload, without the variables of a code: they contain the code. */
const payloadOf = ({ class: messageClass, rendered, to, values }: MessageDraft): Buffer =>
  encodePayload({ to, text: rendered.text, variables: messageClass === 'otp' ? undefined : values })

export interface PrepareOptions {
  readonly topics: TopicNames
  readonly lifetimes: Lifetimes
}

const prepareSend = (
  { lifetimes, topics }: PrepareOptions,
  at: number,
  keys: PayloadKeys,
  send: PendingSend,
  decision: NewSendDecision,
): PreparedSend => {
  const { draft } = decision
  const { checked, request } = send
  const key = keys.get(draft.class)
  if (key === undefined) throw new Error(`no payload key was loaded for class ${draft.class}`)
  const messageId = messageIdOf(send, decision)
  const accepted: MessageAccepted = accept({
    messageId,
    at,
    account: checked.owner.account,
    mode: checked.owner.mode,
    class: draft.class,
    recipient: draft.recipient,
    scenario: draft.scenario,
    template: draft.template,
    sender: draft.sender,
    clientRef: checked.clientRef,
    batch: decision.type === 'republish' ? decision.batch : checked.batch,
    rendered: draft.rendered,
    pricePerPart: draft.pricePerPart,
    lifetimes,
    ttlMs: draft.ttlSeconds === undefined ? undefined : draft.ttlSeconds * 1000,
    payloadKey: key.id,
    ciphertext: key.encrypt(messageId, payloadOf(draft)),
    request: request.context.origin?.request ?? null,
    apiKey: request.context.origin?.apiKey ?? null,
    // Later steps know the hash of the number only.
    numberRange: numberRangeOf(draft.to),
  })
  const republished = decision.type === 'republish'
  const fact = republished ? republish(accepted) : accepted
  const trace = request.context.trace ?? null
  return {
    send,
    reservation: reservationOf(checked, draft, messageId),
    entry: {
      owner: checked.owner,
      fact,
      toMasked: draft.toMasked,
      spendLimit: draft.spendLimit,
      lock: request.context.lock ?? null,
    },
    // Readers of the record continue the trace of the request.
    record: acceptedRecord(topics, fact, trace?.headers),
    view: acceptedView(fact, draft.toMasked),
    republished,
    duplicate: decision.type === 'republish' && decision.duplicate,
  }
}

/** Encrypts and encodes what is new: one record per message. */
export const prepareNew = (
  options: PrepareOptions,
  at: number,
  keys: PayloadKeys,
  decided: ReadonlyArray<DecidedSend>,
): ReadonlyArray<PreparedSend> =>
  decided.flatMap(({ decision, send }) =>
    isNew(decision) ? [prepareSend(options, at, keys, send, decision)] : [],
  )
