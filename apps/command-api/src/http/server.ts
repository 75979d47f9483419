/** The HTTP listener of the API: its limits, and the answers to requests that are not valid HTTP. */
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { LISTENER_OPTIONS, makeListener, type RawAnswer, Serving } from '@hub/http-server'
import { Duration, Effect, Layer } from 'effect'
import { AdmissionControl } from '../accept/admission/admission-control.ts'
import { Access } from '../access/access.ts'
import { clientAddress, isWithin, type Networks } from '../access/client-address.ts'
import { freshId } from '../ids/ids.ts'
import { errorAnswer, headersOf } from './answer.ts'
import { HttpEdge } from './edge.ts'
import { framingError } from './framing.ts'
import { makeOverloadGate } from './overload-gate.ts'
import { LONGEST_ANSWER } from './pipeline.ts'
import { logResponse } from './response-log.ts'
import { loadKeyPair, reloadKeyPair, type TlsFiles } from './tls.ts'

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

/** HTTP/1.1 over TLS 1.2 or later, with a certificate that may be replaced. */
const makeTlsServer = Effect.fnUntraced(function* (files: TlsFiles) {
  const first = yield* loadKeyPair(files)
  const server = createTlsServer({
    ...LISTENER_OPTIONS,
    ...first,
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: LISTENER_OPTIONS.headersTimeout,
  })
  yield* Effect.forkScoped(reloadKeyPair(files, first, server))
  return server
})

/**
 * The listener of the API, with TLS if there are files for it. `host` `null` means all addresses.
 * `shutdownDelay` is the delay of `gracefulShutdown`, after which the listener closes.
 */
export const serverLayer = (
  address: { readonly host: string | null; readonly port: number },
  tls: TlsFiles | null,
  trustedProxies: Networks,
  shutdownDelay: Duration.Duration,
) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const edge = yield* HttpEdge
      const access = yield* Access
      const admission = yield* AdmissionControl
      const fork = Effect.runForkWith(yield* Effect.context<never>())
      const refusal = (status: number): RawAnswer => {
        const requestId = freshId('req', Date.now())
        const answer = errorAnswer(framingError(status), requestId, edge.docBase, { status })
        const line = logResponse(
          { method: '_OTHER', route: null, answer, caller: null, seconds: 0 },
          edge.loggedShare,
        )
        fork(Effect.annotateLogs(line, { request_id: requestId }))
        return {
          headers: { ...headersOf(answer, requestId), 'content-type': answer.contentType },
          body: answer.body,
        }
      }
      const listener = makeListener({
        server: tls === null ? createServer(LISTENER_OPTIONS) : yield* makeTlsServer(tls),
        limits: {
          ...CONNECTIONS,
          isProxy: (from) => isWithin(trustedProxies, clientAddress(from, undefined, [])),
        },
        refusal,
        gate: makeOverloadGate({ access, admission, edge, fork }),
      })
      void (yield* Serving).draining.then(listener.drain)
      return listener.layer(address, { drainWithin: DRAIN_WITHIN, shutdownDelay })
    }),
  )
