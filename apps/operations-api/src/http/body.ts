/** The body of a request: a JSON object of at most 64 KiB. */
import type { IncomingMessage } from 'node:http'
import { parseBodyAsSent } from '@hub/contract'
import { Effect, Result } from 'effect'
import { type ApiFailure, apiFailure } from './failures.ts'

/** The largest body of an operation has some texts of 200 characters. */
export const MAX_BODY_BYTES = 64 * 1024

const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-?8"?)?\s*$/iu

const invalidBody = (message: string): ApiFailure =>
  apiFailure('invalid_parameter', { param: 'body', message })

/** Reads the bytes. Node ends the connection of a client that does not send them in time. */
const readBytes = (incoming: IncomingMessage): Effect.Effect<Buffer, ApiFailure> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    let length = 0
    const onData = (chunk: Buffer): void => {
      length += chunk.length
      if (length > MAX_BODY_BYTES) end(Effect.fail(apiFailure('payload_too_large')))
      else chunks.push(chunk)
    }
    const onEnd = (): void => end(Effect.succeed(Buffer.concat(chunks)))
    // Nobody reads this answer.
    const onClose = (): void => end(Effect.fail(invalidBody('The body is not complete.')))
    const end = (result: Effect.Effect<Buffer, ApiFailure>): void => {
      incoming.off('data', onData).off('end', onEnd).off('close', onClose)
      resume(result)
    }
    incoming.on('data', onData).on('end', onEnd).on('close', onClose)
    return Effect.sync(() => incoming.off('data', onData).off('end', onEnd).off('close', onClose))
  })

/** The bytes of a body; `null` without one. */
const receiveBytes = (incoming: IncomingMessage): Effect.Effect<Buffer | null, ApiFailure> => {
  const { headers } = incoming
  const length = Number(headers['content-length'] ?? 0)
  if (headers['transfer-encoding'] === undefined && length === 0) return Effect.succeed(null)
  if (length > MAX_BODY_BYTES) return Effect.fail(apiFailure('payload_too_large'))
  // A form of another site cannot have this media type.
  if (headers['content-encoding'] !== undefined || !JSON_TYPE.test(headers['content-type'] ?? '')) {
    return Effect.fail(apiFailure('unsupported_media_type'))
  }
  return readBytes(incoming)
}

/**
 * Waits for the body of a request; `null` without one. An operation without fields needs none. A fault
 * is a result, because the check of the caller comes before it.
 */
export const receiveBody = (
  incoming: IncomingMessage,
): Effect.Effect<Result.Result<Readonly<Record<string, unknown>> | null, ApiFailure>> =>
  Effect.map(Effect.result(receiveBytes(incoming)), (received) =>
    Result.flatMap(received, (bytes) =>
      bytes === null
        ? Result.succeed(null)
        : Result.mapError(parseBodyAsSent(bytes), ({ message, param }) =>
            apiFailure('invalid_parameter', { param: param ?? 'body', message }),
          ),
    ),
  )
