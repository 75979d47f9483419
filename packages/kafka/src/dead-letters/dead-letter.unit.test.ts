import { assert, describe, it } from '@effect/vitest'
import type { IncomingRecord } from '../port.ts'
import { deadLetterOf, deadLetterRecord, recordToRetry } from './dead-letter.ts'

const source = {
  topic: 'hub.messages.v1',
  partition: 3,
  offset: 7,
  key: 'k',
  type: 'MessageSeen',
  id: 'r1',
  occurredAt: 1_800_000_000_000,
  appendedAt: 1_800_000_000_001,
  traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  value: Uint8Array.from([1]),
} satisfies IncomingRecord

/** The record that is retried after the dead letter of a record was read. */
const retried = (record: IncomingRecord) => {
  const { headers, ...letter } = deadLetterRecord(record, 'malformed')
  const { tracestate, ...further } = headers ?? {}
  return recordToRetry(
    deadLetterOf({
      ...record,
      ...letter,
      partition: 3,
      headers: further,
      ...(tracestate === undefined ? {} : { tracestate }),
    }),
  )
}

describe('a dead letter', () => {
  it('keeps the trace of its record, also for a retry', () => {
    const { appendedAt: _, offset: __, ...content } = source
    assert.deepStrictEqual(retried(source), content)
    assert.deepStrictEqual(retried({ ...source, tracestate: 'rojo=1' }), {
      ...content,
      headers: { tracestate: 'rojo=1' },
    })
  })
})
