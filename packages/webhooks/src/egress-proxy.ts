/**
 * An HTTP proxy for all connections to receivers (CONNECT, RFC 9110, 9.3.6). The hub resolves and
 * checks the host name as without a proxy, and names the checked address to the proxy. So the proxy
 * resolves nothing, and it cannot read what is sent: TLS is inside of the tunnel.
 */
import { refineSetting, settings } from '@hub/config'
import { type Config, Redacted, Result } from 'effect'
import { connect, isIPv6, type Socket } from 'node:net'

export interface EgressProxy {
  readonly host: string
  readonly port: number
  /** The value of `Proxy-Authorization`; `null`: without a login. */
  readonly authorization: Redacted.Redacted<string> | null
}

const DEFAULT_PORT = 80
/** The head of the answer to CONNECT, with informational responses before it. A longer one is not read. */
const MOST_HEAD_BYTES = 8192
const NOTHING = Buffer.alloc(0)

/** Its code makes the failure one of this process, which does not count against the receiver. */
class ProxyError extends Error {
  readonly code = 'ERR_EGRESS_PROXY'
}

/** The proxy refused or failed to connect to the receiver. */
class ProxyRefused extends Error {
  readonly code: string

  constructor(code: string) {
    super('the proxy did not connect to the receiver')
    this.code = code
  }
}

export const readEgressProxy = (text: string): Result.Result<EgressProxy, string> => {
  const url = URL.parse(text)
  if (url === null || url.protocol !== 'http:' || url.hostname === '' || url.pathname !== '/') {
    return Result.fail('is not the URL of an HTTP proxy')
  }
  const login = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`
  return Result.succeed({
    host: url.hostname.replace(/^\[|\]$/gu, ''),
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    authorization: login === ':' ? null : Redacted.make(`Basic ${Buffer.from(login).toString('base64')}`),
  })
}

/** `null`: connections are direct. */
export const egressProxyConfig: Config.Config<EgressProxy | null> = refineSetting(
  settings.webhookProxyUrl,
  (url) => (url === null ? Result.succeed(null) : readEgressProxy(Redacted.value(url))),
)

/** What the status of the proxy says. 407 and other 4xx are faults of our settings. */
const errorOfStatus = (status: number): Error => {
  if (status === 504) return new ProxyRefused('ETIMEDOUT')
  if (status === 403 || status >= 500) return new ProxyRefused('ECONNREFUSED')
  return new ProxyError(`the proxy answered with ${status}`)
}

/** Opens a tunnel to an address. `done` is called once, within `timeoutMs`. */
export const openTunnel = (
  { authorization, host, port }: EgressProxy,
  target: { readonly address: string; readonly port: number },
  timeoutMs: number,
  done: (error: Error | null, socket: Socket | null) => void,
): void => {
  const socket = connect({ host, port })
  const timer = setTimeout(() => finish(new ProxyError('the proxy did not answer')), timeoutMs)
  let head: Buffer = NOTHING
  let received = 0
  const finish = (error: Error | null) => {
    clearTimeout(timer)
    socket.off('data', onData).off('close', onClose).off('error', onError)
    if (error === null) {
      done(null, socket)
      return
    }
    socket.on('error', () => {}).destroy()
    done(error, null)
  }
  const onError = () => finish(new ProxyError('the proxy cannot be reached'))
  const onClose = () => finish(new ProxyError('the proxy closed the connection'))
  const onData = (chunk: Buffer) => {
    received += chunk.length
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0 && received < MOST_HEAD_BYTES) return
    const status = Number(
      /^HTTP\/1\.[01] (?<status>\d{3})[ \r]/u.exec(head.toString('latin1'))?.groups?.['status'],
    )
    if (end < 0 || !(status >= 100)) finish(new ProxyError('the proxy does not speak HTTP'))
    // It comes before the final response. Source: RFC 9110, 15.2.
    else if (status < 200 && status !== 101 && received < MOST_HEAD_BYTES) {
      head = head.subarray(end + 4)
      onData(NOTHING)
    } else if (status < 200 || status > 299) finish(errorOfStatus(status))
    // The receiver speaks only after the client has begun TLS, so nothing follows the head.
    else if (head.length > end + 4) finish(new ProxyError('the proxy sent data before the tunnel was used'))
    else finish(null)
  }
  socket.on('error', onError).on('close', onClose).on('data', onData)
  socket.once('connect', () => {
    const authority = `${isIPv6(target.address) ? `[${target.address}]` : target.address}:${target.port}`
    const login = authorization === null ? '' : `Proxy-Authorization: ${Redacted.value(authorization)}\r\n`
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${login}\r\n`)
  })
}
