/** Decides which requests are traced. Source: OpenTelemetry specification, SDK, Built-in samplers. */
import type { RemoteParent } from './context.ts'

/** Whether a request is traced. `parent`: the context that it carries, or `null`. `traceId`: that of its trace. */
export type Sampler = (traceId: string, parent: Pick<RemoteParent, 'sampled'> | null) => boolean

const RANGE = 2 ** 64

/**
 * Decides by the last eight bytes of the trace id, like the SDKs for Go and Python, so processes with the same ratio
 * decide the same. `parentBased`: the decision of the caller comes first.
 */
export const ratioSampler = (ratio: number, parentBased: boolean): Sampler => {
  const limit = BigInt(Math.round(ratio * RANGE))
  return (traceId, parent) =>
    parentBased && parent !== null ? parent.sampled : BigInt(`0x${traceId.slice(16)}`) < limit
}

/** The sampler that `OTEL_TRACES_SAMPLER` names. */
export const samplerOf = (name: string, ratio: number): Sampler => {
  const share = name.endsWith('always_on') ? 1 : name.endsWith('always_off') ? 0 : ratio
  return ratioSampler(share, name.startsWith('parentbased_'))
}
