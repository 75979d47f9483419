/**
 * The deprecation of an operation: what the description says of it, and the headers of its answers.
 * Source: VER-9, VER-10; RFC 9745 (Deprecation); RFC 8594 (Sunset).
 */
import { Context } from 'effect'

/** Both are days (`2027-06-30`), from their start in UTC. */
export interface Deprecation {
  /** When the deprecation was announced. */
  readonly since: string
  /** From when the operation may be gone; `null` while that is not decided. */
  readonly sunset: string | null
}

/** The deprecation of an operation; `null`: it is not deprecated. */
export const OperationDeprecation = Context.Reference<Deprecation | null>(
  '@hub/contract/OperationDeprecation',
  { defaultValue: () => null },
)

/** What the description of the operation says. The contract gate compares it. */
export const describeDeprecation = ({ since, sunset }: Deprecation) => ({
  deprecated: true,
  'x-deprecated-since': since,
  ...(sunset === null ? undefined : { 'x-sunset': sunset }),
})

/** The headers of an answer of the operation. */
export const deprecationHeaders = ({ since, sunset }: Deprecation): Readonly<Record<string, string>> => ({
  Deprecation: `@${Date.parse(since) / 1000}`,
  ...(sunset === null ? undefined : { Sunset: new Date(sunset).toUTCString() }),
})
