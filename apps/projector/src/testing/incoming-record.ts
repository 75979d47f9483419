import type { IncomingRecord } from '@hub/kafka'

/** A record without content. `over`: what a test needs otherwise. */
export const incomingRecord = (over: Partial<IncomingRecord> = {}): IncomingRecord => ({
  topic: 't',
  partition: 0,
  offset: 0,
  key: '',
  type: '',
  id: '',
  occurredAt: 0,
  traceparent: null,
  appendedAt: 0,
  value: new Uint8Array(),
  ...over,
})
