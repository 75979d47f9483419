/** The work that a request asks for, as far as its headers and its body say. Pure. */
import { type DeclaredBody } from './body.ts'
import { parseBody } from '@hub/contract'
import type { MessageClass } from '@hub/domain'
import { Result } from 'effect'
import type { Work } from '../accept/admission.ts'
import { type Caller, ownerKey } from '../accounts/account.ts'

/** `single`: one send. `batch`: the sends of a batch. */
export type SendKind = 'single' | 'batch'

/** The operations that need admission, by their name in the contract. */
export const SENDS: Readonly<Record<string, SendKind>> = {
  'messages.send': 'single',
  'messages.sendBatch': 'batch',
}

/** Bytes of a small element of a batch. With larger ones, the work is overestimated. */
const BYTES_PER_SEND = 150
/** The most messages that the default `batch_max` allows; also for a batch of unknown length. */
const MOST_SENDS = 1000

/**
 * The work of a batch whose body is not read yet, by its length. Without the body its class is unknown,
 * so all batches are one kind of work.
 */
export const batchWork = (caller: Caller, declared: DeclaredBody): Work => {
  const bytes = declared.kind === 'body' ? declared.bytes : 0
  const sends = bytes === null ? MOST_SENDS : Math.min(MOST_SENDS, Math.ceil(bytes / BYTES_PER_SEND))
  return { kind: 'batch', account: ownerKey(caller), sends: Math.max(1, sends) }
}

/** The work of a single send. */
export const singleWork = (caller: Caller, messageClass: MessageClass): Work => ({
  kind: messageClass,
  account: ownerKey(caller),
  sends: 1,
})

/** The class of a single send. A body that is no valid send is refused later, whatever its class. */
export const classOf = (body: Uint8Array): MessageClass => {
  const parsed = parseBody(body)
  return Result.isSuccess(parsed) && parsed.success['class'] === 'otp' ? 'otp' : 'service'
}
