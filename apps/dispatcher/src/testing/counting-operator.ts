/** An operator over HTTP in the test's own process: it counts what it is given, never reports, and can be told to be busy. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Effect, type Scope } from 'effect'

export interface CountingOperator {
  readonly url: URL
  /** How often each reference was taken, in the order in which they came first. */
  readonly taken: ReadonlyMap<string, number>
  /** Answers 503 to everything from now on, or takes everything. */
  readonly setBusy: (busy: boolean) => void
  /** Requests that were answered 503. */
  readonly refusals: () => number
}

export const countingOperator: Effect.Effect<CountingOperator, never, Scope.Scope> = Effect.gen(function* () {
  const taken = new Map<string, number>()
  let busy = false
  let refusals = 0
  const server = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const listening = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.once('end', () => {
          response.setHeader('content-type', 'application/json')
          if (busy) {
            refusals++
            response.statusCode = 503
            response.end('{}')
            return
          }
          const batch = JSON.parse(Buffer.concat(chunks).toString('utf8')) as ReadonlyArray<{
            readonly reference: string
          }>
          for (const { reference } of batch) taken.set(reference, (taken.get(reference) ?? 0) + 1)
          response.end(
            JSON.stringify(
              batch.map(({ reference }) => ({
                reference,
                operator_ids: [`op-${reference}`],
                status: 'accepted',
              })),
            ),
          )
        })
      })
      await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
      return listening
    }),
    (listening) =>
      Effect.sync(() => {
        listening.close()
        listening.closeAllConnections()
      }),
  )
  return {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    taken,
    setBusy: (now) => {
      busy = now
    },
    refusals: () => refusals,
  }
})
