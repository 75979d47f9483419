/** The result of an attempt whose answer did not arrive. Only crash points use it. */
import type { DeliveryResult } from '@hub/webhooks'

export const noAnswer = (): DeliveryResult => ({
  succeeded: false,
  responseCode: null,
  durationMs: 0,
  reason: 'timeout',
})
