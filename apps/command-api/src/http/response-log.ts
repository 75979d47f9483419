/**
 * One log line for each HTTP response, so that a `Request-Id` leads to its request. It contains
 * routes, ids and codes: never a path, a query, a body, or a name that the client chose.
 */
import { type ApiError, loggableParam } from '@hub/contract'
import { Clock, Effect } from 'effect'
import type { Caller } from '../accounts/account.ts'
import type { Answer } from './answer.ts'

export interface LoggedResponse {
  readonly method: string
  /** The path with parameter names; `null` for an unknown path. */
  readonly route: string | null
  readonly answer: Pick<Answer, 'status' | 'body' | 'error'>
  /** `null` before the key was checked. */
  readonly caller: Caller | null
  readonly seconds: number
}

const textOf = (body: string | Uint8Array): string =>
  typeof body === 'string' ? body : Buffer.from(body).toString('utf8')

/** The error of a replayed answer, which is stored as text. */
const storedError = (answer: LoggedResponse['answer']): Pick<ApiError, 'code' | 'param'> | null => {
  try {
    return (JSON.parse(textOf(answer.body)) as { readonly error?: ApiError }).error ?? null
  } catch {
    return null
  }
}

/** The fields of the line, without those that the request does not have. */
const fieldsOf = ({ answer, caller, method, route, seconds }: LoggedResponse): Record<string, unknown> => {
  const { body, status } = answer
  const error = answer.error ?? (status < 400 ? null : storedError(answer))
  return {
    method,
    route: route ?? 'none',
    status,
    ...(error === null ? undefined : { code: error.code }),
    ...(error?.param === undefined ? undefined : { param: loggableParam(error.param) }),
    ...(answer.error?.reason === undefined ? undefined : { cause: answer.error.reason }),
    ...(caller === null ? undefined : { account: caller.account, mode: caller.mode, key: caller.key }),
    duration_ms: Math.round(seconds * 10_000) / 10,
    bytes: method === 'HEAD' ? 0 : Buffer.byteLength(body),
  }
}

/** Lines per second about requests that overload refuses. Another line has the number of all of them. */
const OVERLOADED_PER_SECOND = 10

/** Logs responses. `share`: of the 2xx responses that are logged. */
export const makeResponseLog = (share: number) => {
  let second = 0
  let overloaded = 0
  const mayLogOverload = (now: number): boolean => {
    const current = Math.floor(now / 1000)
    if (current !== second) overloaded = 0
    second = current
    return ++overloaded <= OVERLOADED_PER_SECOND
  }
  const log = (response: LoggedResponse): Effect.Effect<void> => {
    const line =
      response.answer.status >= 500 ? Effect.logWarning('http: answered') : Effect.logInfo('http: answered')
    return Effect.annotateLogs(line, fieldsOf(response))
  }
  return (response: LoggedResponse): Effect.Effect<void> => {
    const { error, status } = response.answer
    if (status >= 200 && status < 300 && share < 1 && Math.random() >= share) return Effect.void
    if (error?.code !== 'overloaded') return log(response)
    return Effect.flatMap(Clock.currentTimeMillis, (now) =>
      mayLogOverload(now) ? log(response) : Effect.void,
    )
  }
}
