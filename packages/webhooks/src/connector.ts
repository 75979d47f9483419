/**
 * How sockets to receivers are opened: only to addresses that the policy has just allowed, over TLS verified against
 * the host's name. This is the one place that opens any.
 */
import { Context, Effect, Exit } from 'effect'
import { isIP, type LookupFunction } from 'node:net'
import type { SecureContext } from 'node:tls'
import { buildConnector } from 'undici'
import type { AddressPolicyShape } from './policy.ts'

export interface ConnectorOptions {
  readonly policy: AddressPolicyShape
  readonly secureContext: SecureContext
  /** A connection that takes longer is given up; the deadline of a delivery, since nothing waits longer. */
  readonly connectTimeoutMs: number
}

/** A connector for undici, and how many sockets of it are open. */
export interface SafeConnector {
  readonly connect: buildConnector.connector
  readonly openSockets: () => number
}

/**
 * A host with several addresses is tried one after the other; each but the last has so long, ms. Node's own 250 are
 * too few for a receiver on another continent.
 */
const ATTEMPT_TIMEOUT_MS = 1500

/**
 * Makes the connector. A name is resolved once per connection; all its addresses are checked, and the socket
 * goes to one of these. An IP literal is checked before: Node does not look it up.
 */
export const makeSafeConnector = (
  options: ConnectorOptions,
  context: Context.Context<never>,
): SafeConnector => {
  const { policy } = options
  const run = Effect.runForkWith(context)
  let open = 0

  // Node calls this once per connection, and connects to what it answers.
  const lookupChecked: LookupFunction = (host, lookupOptions, done) => {
    run(policy.addressesOf(host)).addObserver((exit) => {
      if (Exit.isFailure(exit)) {
        done(errorOf(exit), '')
        return
      }
      const [first] = exit.value
      if (lookupOptions.all === true) done(null, [...exit.value])
      else done(null, first?.address ?? '', first?.family)
    })
  }

  const base = buildConnector({
    // HTTP/1.1 only: a delivery that hangs has a connection to itself and holds up no other.
    allowH2: false,
    timeout: options.connectTimeoutMs,
    secureContext: options.secureContext,
    // Said here so that no environment variable can turn it off.
    rejectUnauthorized: true,
    // No session is resumed: Node does not check the name of a resumed one again, and undici keeps sessions of
    // connections that failed that check.
    maxCachedSessions: 0,
    lookup: lookupChecked,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT_TIMEOUT_MS,
  })

  const opened: buildConnector.connector = (target, done) => {
    // The dot of a fully qualified name belongs to no certificate and to no server name indication.
    const servername = isIP(target.hostname) === 0 ? target.hostname.replace(/\.$/u, '') : undefined
    open += 1
    let counted = true
    const closed = () => {
      if (counted) open -= 1
      counted = false
    }
    base({ ...target, ...(servername === undefined ? {} : { servername }) }, (...result) => {
      if (result[0] === null) result[1].once('close', closed)
      else closed()
      done(...result)
    })
  }

  return {
    openSockets: () => open,
    connect: (target, done) => {
      if (isIP(target.hostname) === 0) {
        opened(target, done)
        return
      }
      run(policy.addressesOf(target.hostname)).addObserver((exit) => {
        if (Exit.isSuccess(exit)) opened(target, done)
        else done(errorOf(exit), null)
      })
    },
  }
}

/** The error of a failed exit, as a callback wants it; tagged errors are `Error`s. */
const errorOf = (exit: Exit.Failure<unknown, unknown>): Error => {
  for (const reason of exit.cause.reasons) {
    if (reason._tag === 'Fail' && reason.error instanceof Error) return reason.error
  }
  return new Error('the address check was stopped')
}
