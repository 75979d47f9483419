/**
 * Ends sends that are not accepted. If an earlier commit has recorded a code, it is refunded: it was never
 * published.
 */
import type { ApiError } from '@hub/contract'
import { Result } from 'effect'
import type { Corrections } from '../recovery/corrections.ts'
import type { PendingSend } from '../request.ts'

type Refund = Pick<Corrections, 'refund'>

const refundCode = (corrections: Refund, { checked, recordedBefore }: PendingSend): void => {
  if (checked.class === 'otp' && recordedBefore !== null) corrections.refund([recordedBefore])
}

/** Refuses a send. */
export const refuseSend = (corrections: Refund, send: PendingSend, error: ApiError): void => {
  // A sealed batch would prove the code, so its batch must stay open until the refund.
  if (send.recordedBefore !== null) send.request.doubt()
  refundCode(corrections, send)
  send.finish(Result.fail(error))
}

/** Ends a send that got its answer while it waited to be decided again. */
export const dropSend = (corrections: Refund, send: PendingSend): void => {
  refundCode(corrections, send)
  send.drop()
}
