/** The HTTP listener of the API and the console, and its limits. */
import { FRAMING_MESSAGES, listenerLayer, type ListenerOptions } from '@hub/http-server'
import { Duration } from 'effect'
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

/** The listener. It closes after the `shutdownDelay` of `gracefulShutdown`. */
export const serverLayer = (options: Pick<ListenerOptions, 'host' | 'port' | 'shutdownDelay'>) =>
  listenerLayer({ ...options, tls: null, limits: CONNECTIONS, refusal, drainWithin: DRAIN_WITHIN })
