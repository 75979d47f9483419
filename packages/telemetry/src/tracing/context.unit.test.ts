import { assert, describe, it } from '@effect/vitest'
import {
  childSpan,
  readTraceparent,
  readTracestate,
  rootSpan,
  traceHeadersOf,
  traceparentOf,
} from './context.ts'

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

// Source: W3C Trace Context, 3.3.1, and the cases of its test suite (test_tracestate_…).
describe('tracestate', () => {
  const members = (count: number): string => Array.from({ length: count }, (_, i) => `k${i}=1`).join(',')

  it.each([
    ['rojo=00f067aa0ba902b7,congo=t61rcWkgMzE', 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'],
    ['foo=1 \t , \t bar=2, \t baz=3', 'foo=1,bar=2,baz=3'],
    ['foo=1,,bar=2,', 'foo=1,bar=2'],
    ['foo=1=2', null],
    ['foo= 1', 'foo= 1'],
    ['fw529a3039@dt=FfAAAAA,a-_*/9=:!~', 'fw529a3039@dt=FfAAAAA,a-_*/9=:!~'],
    [`${'z'.repeat(256)}=1`, `${'z'.repeat(256)}=1`],
    [`${'t'.repeat(241)}@${'v'.repeat(14)}=1`, `${'t'.repeat(241)}@${'v'.repeat(14)}=1`],
    [`foo=${'v'.repeat(256)}`, `foo=${'v'.repeat(256)}`],
    [members(32), members(32)],
    [members(33), null],
    ['', null],
    [' , ', null],
    ['foo', null],
    ['foo=', null],
    ['=1', null],
    ['foo =1', null],
    ['FOO=1', null],
    ['foo.bar=1', null],
    ['foo@=1', null],
    ['@foo=1', null],
    ['foo@@bar=1', null],
    ['foo@bar@baz=1', null],
    ['0foo=1', null],
    ['foo=1,foo=2', null],
    ['foo=1,bar', null],
    ['foo=ключ', null],
    ['foo=1\r', null],
    [`${'z'.repeat(257)}=1`, null],
    [`${'t'.repeat(242)}@v=1`, null],
    [`t@${'v'.repeat(15)}=1`, null],
    [`foo=${'v'.repeat(257)}`, null],
  ] as const)('%j is %j', (header, read) => {
    assert.strictEqual(readTracestate(header), read ?? undefined)
  })

  it('that is too long loses the members above 128 characters from its end, and then others', () => {
    const long = (key: string): string => `${key}=${'x'.repeat(127)}`
    const short = (key: string): string => `${key}=${'y'.repeat(98)}`
    const keys = ['c', 'd', 'e', 'f'].map(short)
    assert.strictEqual(
      readTracestate([long('a'), ...keys, long('b')].join(',')),
      keys.join(','),
      'both long members leave 403 characters, and one of them would leave 533',
    )
    const six = ['c', 'd', 'e', 'f', 'g', 'h'].map(short)
    assert.strictEqual(readTracestate(six.join(',')), six.slice(0, 5).join(','))
  })

  it('belongs to the traceparent beside it, and goes to all its successors', () => {
    const parent = readTraceparent(`00-${TRACE}-${SPAN}-01`, 'rojo=1 , congo=2')
    assert.strictEqual(parent?.tracestate, 'rojo=1,congo=2')
    assert.isNull(readTraceparent('x', 'rojo=1'))
    assert.isFalse(Object.hasOwn(readTraceparent(`00-${TRACE}-${SPAN}-01`, 'rojo')!, 'tracestate'))
    const child = childSpan(childSpan(parent!))
    assert.deepStrictEqual(traceHeadersOf(child), {
      traceparent: traceparentOf(child),
      tracestate: 'rojo=1,congo=2',
    })
    assert.isFalse(Object.hasOwn(traceHeadersOf(rootSpan()), 'tracestate'))
  })
})
