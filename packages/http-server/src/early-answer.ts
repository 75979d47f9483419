/**
 * Answers that are known before the body has arrived, such as 413. Stock clients read the answer
 * only after they have sent the whole body. If the server closes the connection before that, they
 * report a broken pipe and never see the answer. So it reads and discards the rest, within bounds.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { Duration, Effect } from 'effect'
import type { HttpServerRequest, HttpServerResponse } from 'effect/http'

/** A client whose body is too large sends some megabytes more than allowed, rarely much more. */
const DISCARD_BYTES = 16 * 1024 * 1024
/** Below the time in which a request must arrive, which `listener.ts` limits. */
const DISCARD_WITHIN = Duration.seconds(10)
/** Requests at a time whose rest is discarded, of 10,000 connections. Others are closed at once. */
const MAX_DISCARDING = 2000

let discarding = 0

/** Reads and discards the body until its end, its bound, or the end of the connection. */
const discard = (incoming: IncomingMessage): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    let bytes = 0
    const done = (): void => resume(Effect.void)
    const count = (chunk: Uint8Array): void => {
      bytes += chunk.length
      if (bytes > DISCARD_BYTES) done()
    }
    incoming.on('data', count).once('end', done).once('close', done).once('error', done)
    incoming.resume()
    return Effect.sync(() => {
      incoming.off('data', count).off('end', done).off('close', done).off('error', done)
    })
  }).pipe(Effect.timeoutOption(DISCARD_WITHIN), Effect.asVoid)

/** Up to this size, the server reads the rest on a connection that it keeps, and the answer is complete before. */
const SMALL_BYTES = 16 * 1024

/** Whether the client is still sending a body. With `Expect`, it waits for the answer instead. */
const isSending = (
  { complete, destroyed, headers }: IncomingMessage,
  { shouldKeepAlive }: ServerResponse,
): boolean =>
  !complete &&
  !destroyed &&
  headers.expect === undefined &&
  (headers['transfer-encoding'] === 'chunked' ||
    Number(headers['content-length'] ?? 0) > (shouldKeepAlive ? SMALL_BYTES : 0))

/**
 * If the client is still sending, sends the answer at once, discards the rest of the body, and only
 * then ends the response. The connection closes if the rest exceeds its bounds.
 */
export const discardRest = (
  request: HttpServerRequest.HttpServerRequest,
  response: HttpServerResponse.HttpServerResponse,
): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  const incoming = NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage
  const outgoing = NodeHttpServerRequest.toServerResponse(request) as ServerResponse
  if (!isSending(incoming, outgoing) || discarding >= MAX_DISCARDING || response.body._tag !== 'Uint8Array') {
    return Effect.succeed(response)
  }
  const { body } = response.body
  return Effect.suspend(() => {
    discarding++
    outgoing.writeHead(response.status, { ...response.headers, 'content-length': body.length })
    outgoing.write(body)
    return discard(incoming)
  }).pipe(
    Effect.ensuring(
      Effect.sync(() => {
        discarding--
        outgoing.end()
        if (!incoming.complete) incoming.socket.destroySoon()
      }),
    ),
    Effect.as(response),
  )
}
