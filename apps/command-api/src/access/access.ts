/**
 * Who may ask, and how often: the failed-login gate, the key, the request rate. Source: specification, Authentication, Request rate;
 * contract, General (failed-login gate, rate headers), Unavailability (Redis).
 */
import { type ApiError, apiError } from '@hub/contract'
import { Counters, type RateVerdict } from '@hub/counters'
import type { StorageError } from '@hub/store'
import { Context, Effect, Layer } from 'effect'
import { NetAddress } from 'effect/net'
import type { Caller } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { type ClientAddress, clientAddress, type Networks } from './client-address.ts'
import { ApiKeys } from './keys.ts'
import { makeLoginGate } from './login-gate.ts'

/** What a request says of who sends it. */
export interface Credentials {
  /** The header `Authorization`, of whatever scheme. */
  readonly authorization: string | undefined
  /** The header `X-Forwarded-For`; several are joined by commas. */
  readonly forwardedFor: string | undefined
  /** The other end of the socket; undefined once it is gone. */
  readonly socketAddress: string | undefined
}

export class Access extends Context.Service<
  Access,
  {
    /**
     * The caller. Fails with `rate_limited` where the gate is shut for the client's address, before the key is looked at; else with
     * `invalid_api_key`, which counts as a failed login if anything was sent to log in with.
     */
    readonly login: (credentials: Credentials) => Effect.Effect<Caller, ApiError | StorageError>
    /** Takes one request from the rate of the key; `null` while nobody counts. */
    readonly take: (caller: Caller) => Effect.Effect<RateVerdict | null, StorageError>
  }
>()('@hub/command-api/Access') {
  /** `trustedProxies`: whose `X-Forwarded-For` is believed. */
  static readonly layer = (
    trustedProxies: Networks,
  ): Layer.Layer<Access, never, ApiKeys | Accounts | Counters> =>
    Layer.effect(
      Access,
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const accounts = yield* Accounts
        const counters = yield* Counters
        const gate = yield* makeLoginGate

        const textOf = (address: ClientAddress): string =>
          address === null ? 'unknown' : NetAddress.formatIp(address)

        return {
          login: Effect.fnUntraced(function* ({ authorization, forwardedFor, socketAddress }) {
            if (authorization === undefined) return yield* apiError('invalid_api_key')
            const address = clientAddress(socketAddress, forwardedFor, trustedProxies)
            const source = textOf(address)
            const verdict = yield* gate.check(source)
            if (!verdict.allowed) {
              return yield* apiError('rate_limited', { retryAfter: verdict.retryAfterSeconds })
            }
            const caller = yield* keys.identify(authorization, address)
            if (caller !== null) return caller
            // Recorded before the answer: whoever asks again after it finds it counted.
            yield* gate.record(source)
            return yield* apiError('invalid_api_key')
          }),

          take: Effect.fnUntraced(function* (caller) {
            const { apiRps } = yield* accounts.settings(caller)
            return yield* Effect.catch(counters.takeToken(caller.key, apiRps), () => Effect.succeed(null))
          }),
        }
      }),
    )
}
