/** The client passes its published signature vectors. */
import { readFileSync } from 'node:fs'
import { Webhook } from 'standardwebhooks'
import { afterEach, expect, it, vi } from 'vitest'
import { readEvents, TOLERANCE_SECONDS, WebhookSignatureError } from './signature.ts'

interface Vectors {
  readonly secret: string
  readonly now: number
  readonly tolerance_seconds: number
  readonly vectors: ReadonlyArray<{
    readonly group: string
    readonly name: string
    readonly header: string | null
    readonly body_base64: string
    readonly valid: boolean
    readonly problem: string | null
  }>
  readonly standard_vectors: ReadonlyArray<{
    readonly group: string
    readonly name: string
    readonly headers: Record<string, string>
    readonly body_base64: string
    readonly valid: boolean
    readonly problem: string | null
  }>
}

const { now, secret, standard_vectors, tolerance_seconds, vectors } = JSON.parse(
  readFileSync(new URL('../conformance/signatures.json', import.meta.url), 'utf8'),
) as Vectors

it.each(vectors.map((vector) => [vector.group, vector.name, vector] as const))(
  'a signature vector is judged as it says: %s, %s',
  async (_group, _name, { body_base64, header, problem, valid }) => {
    const read = readEvents(Buffer.from(body_base64, 'base64'), header, secret, { now: now * 1000 })
    const found = await read.then(
      () => null,
      (error: unknown) => {
        if (error instanceof WebhookSignatureError) return error.code
        throw error
      },
    )
    expect(found).toBe(problem)
    expect(valid).toBe(problem === null)
  },
)

it('the signature vectors have every kind of signature, and the tolerance of the client', () => {
  expect(new Set(vectors.map(({ group }) => group))).toEqual(
    new Set(['valid', 'rotated', 'expired', 'tampered', 'wrong encoding', 'malformed']),
  )
  expect(tolerance_seconds).toBe(TOLERANCE_SECONDS)
})

afterEach(() => {
  vi.useRealTimers()
})

// The client does not verify these headers, so the project's own library judges the vectors.
it.each(standard_vectors.map((vector) => [vector.group, vector.name, vector] as const))(
  'the library of Standard Webhooks judges a vector as it says: %s, %s',
  (_group, _name, { body_base64, headers, problem, valid }) => {
    vi.useFakeTimers({ now: now * 1000, toFake: ['Date'] })
    const verify = (): unknown => new Webhook(secret).verify(Buffer.from(body_base64, 'base64'), headers)
    if (valid) expect(verify()).toBeInstanceOf(Array)
    else expect(verify).toThrow()
    expect(valid).toBe(problem === null)
  },
)
