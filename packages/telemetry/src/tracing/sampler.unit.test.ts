import { assert, describe, it } from 'vitest'
import { samplerOf } from './sampler.ts'

const TRACES = [
  '4bf92f3577b34da6a3ce929d0e0e4736',
  '0af7651916cd43dd8448eb211c80319c',
  '00000000000000000000000000000001',
  '0123456789abcdef7fffffffffffffff',
  '0123456789abcdef8000000000000000',
  'ffffffffffffffffffffffffffffffff',
  'ffffffffffffffff0000000000000001',
  '0123456789abcdef1999999999999999',
  '0123456789abcdef19999999999a0001',
]

type Sampled = readonly [withoutParent: string, notSampled: string, sampled: string]

/**
 * Which of these traces are sampled without a parent, with one that is not sampled, and with a sampled one. Source:
 * the samplers of opentelemetry-sdk 1.41.0 for Python, made from OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
 */
const EXPECTED: ReadonlyArray<readonly [name: string, ratio: number, ...sampled: Sampled]> = [
  ['always_on', 0.5, '111111111', '111111111', '111111111'],
  ['always_off', 0.5, '000000000', '000000000', '000000000'],
  ['traceidratio', 0.5, '001100111', '001100111', '001100111'],
  ['traceidratio', 0.1, '001000110', '001000110', '001000110'],
  ['traceidratio', 0, '000000000', '000000000', '000000000'],
  ['traceidratio', 1, '111111111', '111111111', '111111111'],
  ['parentbased_always_on', 0.5, '111111111', '000000000', '111111111'],
  ['parentbased_always_off', 0.5, '000000000', '000000000', '111111111'],
  ['parentbased_traceidratio', 0.5, '001100111', '000000000', '111111111'],
  ['parentbased_traceidratio', 0.1, '001000110', '000000000', '111111111'],
  ['parentbased_traceidratio', 0, '000000000', '000000000', '111111111'],
  ['parentbased_traceidratio', 1, '111111111', '000000000', '111111111'],
]

describe('a sampler', () => {
  it.each(EXPECTED)('decides like the SDK for Python: %s, %d', (name, ratio, ...sampled: Sampled) => {
    const sampler = samplerOf(name, ratio)
    const decided = [null, { sampled: false }, { sampled: true }].map((parent) =>
      TRACES.map((traceId) => (sampler(traceId, parent) ? '1' : '0')).join(''),
    )
    assert.deepStrictEqual<ReadonlyArray<string>>(decided, sampled)
  })
})
