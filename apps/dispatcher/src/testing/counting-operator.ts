/** An HTTP operator in the test process. It counts submits, never reports, and can be busy. */
import { Effect, type Scope } from 'effect'
import { operatorServer } from './operator-server.ts'

export interface CountingOperator {
  readonly url: URL
  /** The number of accepted submits for each reference, in the order of the first ones. */
  readonly taken: ReadonlyMap<string, number>
  /** While busy, the operator answers 503 to everything. */
  readonly setBusy: (busy: boolean) => void
  /** Slows the answers down to this number of messages per second. */
  readonly throttle: (messagesPerSecond: number) => void
  /** The number of 503 answers. */
  readonly refusals: () => number
}

export const countingOperator: Effect.Effect<CountingOperator, never, Scope.Scope> = Effect.gen(function* () {
  const taken = new Map<string, number>()
  let busy = false
  let refusals = 0
  let messageMs = 0
  /** When the operator has worked through all messages that it has taken, ms since the epoch. */
  let idleAt = 0
  const url = yield* operatorServer((batch, response) => {
    if (busy) {
      refusals++
      response.statusCode = 503
      response.end('{}')
      return
    }
    for (const { reference } of batch) taken.set(reference, (taken.get(reference) ?? 0) + 1)
    const answer = JSON.stringify(
      batch.map(({ reference }) => ({
        reference,
        operator_ids: [`op-${reference}`],
        status: 'accepted',
      })),
    )
    const now = Date.now()
    idleAt = Math.max(idleAt, now) + messageMs * batch.length
    if (idleAt === now) response.end(answer)
    else setTimeout(() => response.end(answer), idleAt - now)
  })
  return {
    url,
    taken,
    setBusy: (now) => {
      busy = now
    },
    throttle: (messagesPerSecond) => {
      messageMs = 1000 / messagesPerSecond
    },
    refusals: () => refusals,
  }
})
