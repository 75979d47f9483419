/** The HTTP listener of the API and the console, and its limits. */
import { createServer } from 'node:http'
import { FRAMING_MESSAGES, LISTENER_OPTIONS, makeListener, Serving } from '@hub/http-server'
import { Duration, Effect, Layer } from 'effect'
import { SECURITY_HEADERS } from './answer.ts'

/**
 * Hub staff are some dozens of people. A browser opens up to six connections. All of them may come
 * from one address, that of the ingress: at its limit, its oldest waiting connection makes room.
 */
const CONNECTIONS = { all: 500, perAddress: 250 }

/** For requests in progress at a shutdown: the longest of them, and its answer. */
const DRAIN_WITHIN = Duration.seconds(21)

/** The answer to what is no HTTP request. */
const refusal = (status: number) => ({
  headers: { ...SECURITY_HEADERS, 'content-type': 'text/plain; charset=utf-8' },
  body: `${FRAMING_MESSAGES[status] ?? FRAMING_MESSAGES[400]!}\n`,
})

/**
 * The listener. `host` `null` means all addresses. `shutdownDelay`: from the announcement of a shutdown
 * until the listener closes.
 */
export const serverLayer = (
  address: { readonly host: string | null; readonly port: number },
  shutdownDelay: Duration.Duration,
) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const listener = makeListener({
        server: createServer(LISTENER_OPTIONS),
        limits: CONNECTIONS,
        refusal,
      })
      void (yield* Serving).draining.then(listener.drain)
      return listener.layer(address, { drainWithin: DRAIN_WITHIN, shutdownDelay })
    }),
  )
