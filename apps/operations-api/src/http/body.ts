/** The body of a request: a JSON object of at most 64 KiB. */
import type { IncomingMessage } from 'node:http'
import { parseBodyAsSent } from '@hub/contract'
import { type BodyRules, declaredBody, readBody } from '@hub/http-server'
import { Effect, Result } from 'effect'
import { type ApiFailure, apiFailure } from './failures.ts'

const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-?8"?)?\s*$/iu

const RULES: BodyRules = {
  /** The largest body of an operation has some texts of 200 characters. */
  maxBytes: 64 * 1024,
  // A form of another site cannot have this media type.
  isSupported: (headers) =>
    headers['content-encoding'] === undefined && JSON_TYPE.test(headers['content-type'] ?? ''),
}

const invalidBody = (message: string): ApiFailure =>
  apiFailure('invalid_parameter', { param: 'body', message })

/** The bytes of a body; `null` without one. */
const receiveBytes = (incoming: IncomingMessage): Effect.Effect<Uint8Array | null, ApiFailure> => {
  const declared = declaredBody(incoming.headers, RULES)
  if (declared.kind === 'none') return Effect.succeed(null)
  if (declared.kind === 'refused') return Effect.fail(apiFailure(declared.code))
  return readBody(incoming, {
    maxBytes: RULES.maxBytes,
    failure: (code) =>
      code === 'disconnected' ? invalidBody('The body is not complete.') : apiFailure(code),
  })
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
