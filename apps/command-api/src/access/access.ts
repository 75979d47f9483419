/**
 * The failed-login gate, the API key and the rate limit. Source: specification, Authentication,
 * Request rate; contract, General (failed-login gate, rate headers), Unavailability (Redis).
 */
import { apiError } from '@hub/contract'
import { Counters } from '@hub/counters'
import { Context, Effect, Layer } from 'effect'
import { NetAddress } from 'effect/net'
import type { Caller } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { clientAddress, type Networks } from './client-address.ts'
import { ApiKeys } from './api-keys.ts'
import { makeLoginGate } from './login-gate.ts'

/** The parts of a request that identify its sender. */
export interface Credentials {
  /** The header `Authorization`, with any scheme. */
  readonly authorization: string | undefined
  /** The header `X-Forwarded-For`; Node joins several with commas. */
  readonly forwardedFor: string | undefined
  /** The peer address of the socket; undefined after a disconnect. */
  readonly socketAddress: string | undefined
}

export class Access extends Context.Service<Access>()('@hub/command-api/Access', {
  /** `trustedProxies`: proxies whose `X-Forwarded-For` is used. */
  make: Effect.fnUntraced(function* (trustedProxies: Networks) {
    const keys = yield* ApiKeys
    const accounts = yield* Accounts
    const counters = yield* Counters
    const gate = yield* makeLoginGate

    return {
      /**
       * Identifies the caller. Fails with `rate_limited`, before the key check, while the gate is
       * closed for the client's address. Fails with `invalid_api_key` otherwise, which counts as a
       * failed login if the request has an `Authorization` header.
       */
      login: Effect.fnUntraced(function* ({ authorization, forwardedFor, socketAddress }: Credentials) {
        if (authorization === undefined) return yield* apiError('invalid_api_key')
        const address = clientAddress(socketAddress, forwardedFor, trustedProxies)
        const source = address === null ? 'unknown' : NetAddress.formatIp(address)
        const verdict = yield* gate.check(source)
        if (!verdict.allowed) {
          return yield* apiError('rate_limited', { retryAfter: verdict.retryAfterSeconds })
        }
        const caller = yield* keys.identify(authorization, address)
        if (caller !== null) return caller
        // Recorded before the answer, so that the client's next request finds it counted.
        yield* gate.record(source)
        return yield* apiError('invalid_api_key')
      }),

      /** Takes a token of the key's request rate; `null` while Redis is unavailable. */
      take: Effect.fnUntraced(function* (caller: Caller) {
        const { apiRps } = yield* accounts.settings(caller)
        return yield* Effect.catch(counters.takeToken(caller.key, apiRps), () => Effect.succeed(null))
      }),
    }
  }),
}) {
  static readonly layer = (trustedProxies: Networks) => Layer.effect(this, this.make(trustedProxies))
}
