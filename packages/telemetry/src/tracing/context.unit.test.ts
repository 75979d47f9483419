import { assert, describe, it } from '@effect/vitest'
import { childSpan, readTraceparent, rootSpan, traceparentOf } from './context.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN = '00f067aa0ba902b7'

describe('traceparent', () => {
  it('is read with its flag', () => {
    assert.deepStrictEqual(readTraceparent(`00-${TRACE}-${SPAN}-01`), {
      traceId: TRACE,
      spanId: SPAN,
      sampled: true,
    })
    assert.strictEqual(readTraceparent(`00-${TRACE}-${SPAN}-00`)?.sampled, false)
    // Only the lowest bit is the sampled flag.
    assert.strictEqual(readTraceparent(`00-${TRACE}-${SPAN}-02`)?.sampled, false)
    assert.strictEqual(readTraceparent(`00-${TRACE}-${SPAN}-03`)?.sampled, true)
  })

  it('of a later version is read up to its known part', () => {
    assert.strictEqual(readTraceparent(`cc-${TRACE}-${SPAN}-01-what-comes-then`)?.traceId, TRACE)
    assert.strictEqual(readTraceparent(`cc-${TRACE}-${SPAN}-01`)?.traceId, TRACE)
  })

  it('that is invalid is ignored', () => {
    for (const header of [
      undefined,
      null,
      '',
      'x',
      `00-${TRACE}-${SPAN}`,
      `00-${TRACE}-${SPAN}-01-more`,
      `ff-${TRACE}-${SPAN}-01`,
      `00-${TRACE.toUpperCase()}-${SPAN}-01`,
      `00-${'0'.repeat(32)}-${SPAN}-01`,
      `00-${TRACE}-${'0'.repeat(16)}-01`,
      `00-${TRACE}-${SPAN}-01 `,
      `cc-${TRACE}-${SPAN}-01-${'x'.repeat(200)}`,
      `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
    ]) {
      assert.isNull(readTraceparent(header), String(header))
    }
  })

  it('of a span identifies the parent of its successors', () => {
    const root = rootSpan()
    assert.isNull(root.parentId)
    assert.deepStrictEqual(readTraceparent(traceparentOf(root)), {
      traceId: root.traceId,
      spanId: root.spanId,
      sampled: true,
    })
    const child = childSpan(root)
    assert.strictEqual(child.traceId, root.traceId)
    assert.strictEqual(child.parentId, root.spanId)
    assert.notStrictEqual(child.spanId, root.spanId)
  })
})
