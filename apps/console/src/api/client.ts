/**
 * Requests to the API of the operations tools, on the same origin. The browser sends the session
 * cookie. Requests that change something also have the CSRF token of the session.
 */
import { signal } from '@preact/signals'
import type { Me, Permission } from './types.ts'

/** Why a request failed, and so what the user can do. */
export type Failure =
  /** No answer, or an answer of a proxy: a repeat may help. */
  | { readonly kind: 'unavailable' }
  /** The session has ended: the user must sign in. */
  | { readonly kind: 'signed_out' }
  | {
      readonly kind: 'refused'
      readonly status: number
      readonly code: string
      readonly message: string
      readonly param: string | null
      /** The roles that may do it, if the role of the user may not. */
      readonly roles: ReadonlyArray<string>
      readonly requestId: string | null
    }

export class RequestFailed extends Error {
  readonly failure: Failure
  constructor(failure: Failure) {
    super(failure.kind === 'refused' ? failure.message : failure.kind)
    this.failure = failure
  }
}

/**
 * Who is signed in. `unknown`: not asked yet. `expired`: the session ended while pages were open, and
 * the address stays, so that the login returns to it.
 */
export type Session =
  | { readonly state: 'unknown' }
  | { readonly state: 'unavailable' }
  | { readonly state: 'signed_out' }
  | { readonly state: 'expired' }
  | { readonly state: 'signed_in'; readonly me: Me }

export const session = signal<Session>({ state: 'unknown' })

/** Longer than any deadline of the API. It ends a request that hangs. */
const REQUEST_TIMEOUT_MS = 30_000

const rolesIn = (details: unknown): ReadonlyArray<string> => {
  if (typeof details !== 'object' || details === null || !('roles' in details)) return []
  return Array.isArray(details.roles) ? details.roles.map(String) : []
}

const failureOf = (status: number, body: unknown): Failure => {
  const error =
    typeof body === 'object' && body !== null && 'error' in body && typeof body.error === 'object'
      ? (body.error as Record<string, unknown> | null)
      : null
  if (status === 401) return { kind: 'signed_out' }
  // A proxy in front of the API answers without the envelope of the API.
  if (error === null) return { kind: 'unavailable' }
  const text = (name: string): string | null => (typeof error[name] === 'string' ? error[name] : null)
  return {
    kind: 'refused',
    status,
    code: text('code') ?? 'unknown',
    message: text('message') ?? '',
    param: text('param'),
    roles: rolesIn(error['details']),
    requestId: text('request_id'),
  }
}

/** The session after an answer that nobody is signed in. Several requests may get this answer. */
export const withoutSession = ({ state }: Session): Session => ({
  state: state === 'signed_in' || state === 'expired' ? 'expired' : 'signed_out',
})

interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/** Sends a request. Throws `RequestFailed`, or the reason of the abort of `options.signal`. */
export const request = async <A>(path: string, options: RequestOptions = {}): Promise<A> => {
  const { body, method = 'GET' } = options
  const me = session.value.state === 'signed_in' ? session.value.me : null
  const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
  let response: Response
  let text: string
  try {
    response = await fetch(path, {
      method,
      credentials: 'same-origin',
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(method === 'GET' || me === null ? {} : { 'x-csrf-token': me.csrf_token ?? '' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]),
    })
    text = await response.text()
  } catch (error) {
    if (options.signal?.aborted === true) throw error
    throw new RequestFailed({ kind: 'unavailable' })
  }
  let parsed: unknown = null
  try {
    parsed = text === '' ? null : JSON.parse(text)
  } catch {
    throw new RequestFailed({ kind: 'unavailable' })
  }
  if (response.ok) return parsed as A
  const failure = failureOf(response.status, parsed)
  if (failure.kind === 'signed_out') session.value = withoutSession(session.value)
  throw new RequestFailed(failure)
}

/** Asks who is signed in. */
export const loadSession = async (): Promise<void> => {
  try {
    session.value = { state: 'signed_in', me: await request<Me>('/v1/me') }
  } catch (error) {
    if (!(error instanceof RequestFailed)) throw error
    if (error.failure.kind === 'signed_out') return
    session.value = { state: 'unavailable' }
  }
}

/** The accounts of a member; `null`: hub staff see all. */
export const ownAccounts = (): ReadonlyArray<string> | null =>
  session.value.state === 'signed_in' ? (session.value.me.accounts ?? null) : null

/** Whether the user may do something. Only for what the console shows: the API decides. */
export const may = (permission: Permission): boolean =>
  session.value.state === 'signed_in' && session.value.me.permissions.includes(permission)
