/** The HTTP listener of the API: its limits, and the answers to requests that are not valid HTTP. */
import { listenerLayer, type ListenerOptions, type RawAnswer } from '@hub/http-server'
import { Duration, Effect, Layer } from 'effect'
import { clientAddress, isWithin, type Networks } from '../access/client-address.ts'
import { freshId } from '../ids/ids.ts'
import { errorAnswer, headersOf } from './answer.ts'
import { LONGEST_ANSWER } from './deadline.ts'
import { HttpEdge } from './edge.ts'
import { framingError } from './framing.ts'

/**
 * Concurrent connections; a few kilobytes each. One address may have half of them, so that it
 * cannot exclude all others. The half is for many clients behind one address.
 */
const CONNECTIONS = { all: 10_000, perAddress: 5000 }

/**
 * Time for requests in progress at a shutdown: for the longest of them, and for its answer to reach
 * the client. The manifests have a grace period for it.
 */
const DRAIN_WITHIN = Duration.sum(LONGEST_ANSWER, Duration.seconds(1))

/** The listener of the API. It closes after the `shutdownDelay` of `gracefulShutdown`. */
export const serverLayer = ({
  trustedProxies,
  ...options
}: Pick<ListenerOptions, 'host' | 'port' | 'shutdownDelay' | 'tls'> & {
  readonly trustedProxies: Networks
}) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const edge = yield* HttpEdge
      const fork = Effect.runForkWith(yield* Effect.context<never>())
      const refusal = (status: number): RawAnswer => {
        const requestId = freshId('req', Date.now())
        const answer = errorAnswer(framingError(status), requestId, edge.docBase, { status })
        const line = edge.log({ method: '_OTHER', route: null, answer, caller: null, seconds: 0 })
        fork(Effect.annotateLogs(line, { request_id: requestId }))
        return {
          headers: { ...headersOf(answer, requestId), 'content-type': answer.contentType },
          body: answer.body,
        }
      }
      return listenerLayer({
        ...options,
        limits: {
          ...CONNECTIONS,
          isProxy: (from) => isWithin(trustedProxies, clientAddress(from, undefined, [])),
        },
        refusal,
        drainWithin: DRAIN_WITHIN,
      })
    }),
  )
