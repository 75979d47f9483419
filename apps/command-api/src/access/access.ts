/**
 * The failed-login gate, the API key and the rate limit. Source: AUTH-1 to AUTH-15, LIM-1 to LIM-4, AVL-17.
 */
import { apiError } from '@hub/contract'
import { Counters } from '@hub/counters'
import { Context, Effect, Layer } from 'effect'
import { NetAddress } from 'effect/net'
import type { Caller } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { type ClientAddress, clientAddress, type Networks, wideNetworks } from './client-address.ts'
import { ApiKeys } from './api-keys.ts'
import { lockedOut, makeLoginGate } from './login-gate.ts'

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
    for (const network of wideNetworks(trustedProxies)) {
      yield* Effect.annotateLogs(
        Effect.logWarning(
          'access: a network of HUB_TRUSTED_PROXIES is as wide as a private range; each client in it chooses its own address',
        ),
        { network: String(network) },
      )
    }
    const addressOf = ({ forwardedFor, socketAddress }: Credentials) =>
      clientAddress(socketAddress, forwardedFor, trustedProxies)
    const textOf = (address: ClientAddress): string =>
      address === null ? 'unknown' : NetAddress.formatIp(address)

    return {
      /** The client address as text; `unknown` after a disconnect. */
      addressOf: (credentials: Credentials): string => textOf(addressOf(credentials)),

      /**
       * Identifies the caller. Fails with `rate_limited`, before the key check, while the gate is
       * closed for the client's address. Fails with `invalid_api_key` otherwise, which counts as a
       * failed login if the request has an `Authorization` header.
       */
      login: Effect.fnUntraced(function* (credentials: Credentials) {
        const { authorization } = credentials
        if (authorization === undefined) return yield* apiError('invalid_api_key')
        const address = addressOf(credentials)
        const source = textOf(address)
        const verdict = yield* gate.check(source)
        if (!verdict.allowed) return yield* lockedOut(verdict.retryAfterSeconds)
        // A key that is known to be valid is no attempt: attempts of others must not delay it.
        const known = keys.known(authorization, address)
        const cached = yield* known
        if (cached !== null) return cached
        const caller = yield* gate.attempt(source, known, keys.identify(authorization, address))
        return caller ?? (yield* apiError('invalid_api_key'))
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
