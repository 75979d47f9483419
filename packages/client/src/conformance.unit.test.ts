/** The client passes its published signature vectors. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
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
}

const { now, secret, tolerance_seconds, vectors } = JSON.parse(
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
