/** The work that a request asks for, as far as its headers and its body say. Pure. */
import { parseBody } from '@hub/contract'
import type { MessageClass } from '@hub/domain'
import type { DeclaredBody } from '@hub/http-server'
import { Result } from 'effect'
import type { Work } from '../accept/admission/admission.ts'
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
/** The most messages that the default `batch_max` allows. */
const MOST_SENDS = 1000

/** The work of a batch, by the length of its body. The classes in it differ, so all batches are one kind of work. */
const batchWork = (caller: Caller, bytes: number): Work => ({
  kind: 'batch',
  account: ownerKey(caller),
  sends: Math.max(1, Math.min(MOST_SENDS, Math.ceil(bytes / BYTES_PER_SEND))),
})

/** The class of a single send. A body that is no valid send is refused later, whatever its class. */
const classOf = (body: Uint8Array): MessageClass => {
  const parsed = parseBody(body)
  return Result.isSuccess(parsed) && parsed.success['class'] === 'otp' ? 'otp' : 'service'
}

/** The least work that a request can have whose body is not read yet. If it is refused, the body does not matter. */
export const unreadWork = (kind: SendKind, caller: Caller, declared: DeclaredBody): Work =>
  kind === 'batch'
    ? batchWork(caller, declared.kind === 'body' ? (declared.bytes ?? 0) : 0)
    : { kind: 'otp', account: ownerKey(caller), sends: 1 }

/** The work of a request with this body. */
export const workOf = (kind: SendKind, caller: Caller, body: Uint8Array): Work =>
  kind === 'batch'
    ? batchWork(caller, body.length)
    : { kind: classOf(body), account: ownerKey(caller), sends: 1 }
