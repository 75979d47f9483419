/** Accepted messages for tests. */
import type { MessageAccepted } from '../message/fact.ts'

const DAY_MS = 86_400_000

/** A live `service` message of one part. `over`: what a test needs otherwise. */
export const messageAccepted = (over: Partial<MessageAccepted> = {}): MessageAccepted => {
  const { at = Date.UTC(2026, 10, 21) } = over
  return {
    type: 'MessageAccepted',
    messageId: 'msg_01h455vb4pex5vsknk084sn02q',
    at,
    account: 'acc_01h455vb4pex5vsknk084sn02q',
    mode: 'live',
    class: 'service',
    recipient: '0'.repeat(64),
    template: 'order_ready',
    sender: 'HUB',
    clientRef: null,
    batch: null,
    parts: 1,
    price: { amount: '2.00', currency: 'RUB' },
    variables: ['order'],
    expiresAt: at + DAY_MS,
    payloadKey: 'a payload key',
    ciphertext: Uint8Array.of(1),
    republished: false,
    numberRange: '900',
    ...over,
  }
}
