/**
 * Opens the sockets to receivers: only to addresses that the address policy has just allowed, and
 * over TLS with a certificate for the host name. No other code opens sockets to receivers.
 */
import { skippingInformational } from '@hub/http-client'
import { Context, Effect, Exit } from 'effect'
import { isIP, type LookupFunction } from 'node:net'
import type { SecureContext } from 'node:tls'
import { buildConnector } from 'undici'
import type { AddressPolicyShape } from './address-policy.ts'
import { type EgressProxy, openTunnel } from './egress-proxy.ts'

interface ConnectorOptions {
  readonly policy: AddressPolicyShape
  /** `null`: connections are direct. */
  readonly proxy: EgressProxy | null
  /** Timeout for opening a connection: no delivery waits longer than its deadline. */
  readonly connectTimeoutMs: number
}

/** Makes connectors for undici, and counts the open sockets of all of them. */
interface SafeConnectors {
  /** A connector with these authorities and, if it contains one, this client certificate. */
  readonly connectorOf: (secureContext: SecureContext) => buildConnector.connector
  readonly openSockets: () => number
}

const HTTPS_PORT = 443

/**
 * The addresses of a host are tried one after the other, each except the last for so long, ms.
 * Node's default of 250 ms is too short for a receiver on another continent.
 */
const ATTEMPT_TIMEOUT_MS = 1500

/**
 * Makes connectors. A connector resolves a name once for each connection, checks all of its addresses,
 * and connects to one of them. So DNS cannot return another address after the check. An IP literal
 * is checked before, because Node does not look it up.
 */
export const makeSafeConnectors = (
  { connectTimeoutMs, policy, proxy }: ConnectorOptions,
  context: Context.Context<never>,
): SafeConnectors => {
  const run = Effect.runForkWith(context)
  let open = 0

  // Node calls this once for each connection and connects to the result.
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

  const openerOf = (secureContext: SecureContext): buildConnector.connector => {
    const base = buildConnector({
      // Only HTTP/1.1: a hung delivery then has its own connection and delays no other.
      allowH2: false,
      timeout: connectTimeoutMs,
      secureContext,
      // Explicit, so that no environment variable can turn it off.
      rejectUnauthorized: true,
      // No TLS session is resumed: Node does not check the host name of a resumed session again, and
      // undici also keeps sessions of connections that failed this check.
      maxCachedSessions: 0,
      lookup: lookupChecked,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ATTEMPT_TIMEOUT_MS,
    })
    return (target, done) => {
      // Certificates and server name indication have no trailing dot.
      const servername = isIP(target.hostname) === 0 ? target.hostname.replace(/\.$/u, '') : undefined
      open += 1
      let counted = true
      const closed = () => {
        if (counted) open -= 1
        counted = false
      }
      base({ ...target, ...(servername === undefined ? {} : { servername }) }, (...result) => {
        if (result[0] === null) {
          const socket = result[1]
          socket.once('close', closed)
          // With TLS 1.3 a receiver refuses the client certificate only after the handshake (RFC 8446, 4.4.2.4).
          // Node does not close the connection then, and undici would fail the request with the later end of it.
          socket.once('error', (error) => void socket.destroy(error))
        } else closed()
        done(...result)
      })
    }
  }

  /** Connects through the proxy to an address that was just checked. */
  const tunnelled =
    (egress: EgressProxy, opened: buildConnector.connector): buildConnector.connector =>
    (target, done) => {
      run(policy.addressesOf(target.hostname)).addObserver((exit) => {
        if (Exit.isFailure(exit)) {
          done(errorOf(exit), null)
          return
        }
        // A tunnel is for one address. IPv4 comes first, because a proxy may have no IPv6.
        const address = exit.value.find(({ family }) => family === 4) ?? exit.value[0]
        const port = target.port === '' ? HTTPS_PORT : Number(target.port)
        const to = { address: address?.address ?? '', port }
        openTunnel(egress, to, connectTimeoutMs, (error, socket) => {
          if (error === null && socket !== null) opened({ ...target, httpSocket: socket }, done)
          else done(error ?? new Error('there is no tunnel'), null)
        })
      })
    }

  return {
    openSockets: () => open,
    connectorOf: (secureContext) => {
      const opened = openerOf(secureContext)
      return skippingInformational((target, done) => {
        if (proxy !== null) {
          tunnelled(proxy, opened)(target, done)
          return
        }
        if (isIP(target.hostname) === 0) {
          opened(target, done)
          return
        }
        run(policy.addressesOf(target.hostname)).addObserver((exit) => {
          if (Exit.isSuccess(exit)) opened(target, done)
          else done(errorOf(exit), null)
        })
      })
    },
  }
}

/** The error of a failed exit, for a Node callback. */
const errorOf = (exit: Exit.Failure<unknown, unknown>): Error => {
  for (const reason of exit.cause.reasons) {
    if (reason._tag === 'Fail' && reason.error instanceof Error) return reason.error
  }
  return new Error('the address check was interrupted')
}
