/**
 * Opens the sockets of the driver: resolves the host name anew, connects, and encrypts if the URL
 * says so. The driver would do the same, but would not show what passes through an encrypted socket.
 */
import net from 'node:net'
import tls from 'node:tls'
import type postgres from 'postgres'

/** `SSLRequest` of the protocol. PostgreSQL answers with `S` if it can encrypt. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const CAN_ENCRYPT = 0x53

/** Values of `sslmode` that encrypt and do not verify the certificate. */
const UNVERIFIED: ReadonlySet<unknown> = new Set(['require', 'allow', 'prefer'])

/**
 * Idle connections whose peer is gone are closed after about 15 s: Node then probes ten times,
 * once a second.
 */
const KEEP_ALIVE_MS = 5000

export type TlsMode = postgres.Options<{}>['ssl']

/** The options that the driver has read from the URL. */
export type Target = Pick<postgres.ParsedOptions, 'host' | 'port'> & { readonly path?: string | false }

const failure = (code: string): Error =>
  Object.assign(new Error(`connecting to PostgreSQL: ${code}`), { code })

/** Fails a wait on a socket that ends, fails or is late. */
const awaitSocket = <A>(
  socket: net.Socket,
  deadline: number,
  begin: (resolve: (value: A) => void) => void,
): Promise<A> =>
  new Promise<A>((resolve, reject) => {
    const finish = (act: () => void) => {
      clearTimeout(timer)
      socket.off('error', onError)
      socket.off('close', onClose)
      act()
    }
    const onError = (error: Error) => finish(() => reject(error))
    const onClose = () => finish(() => reject(failure('CONNECTION_CLOSED')))
    const timer = setTimeout(
      () => {
        socket.destroy()
        finish(() => reject(failure('CONNECT_TIMEOUT')))
      },
      Math.max(1, deadline - performance.now()),
    )
    socket.on('error', onError)
    socket.on('close', onClose)
    begin((value) => finish(() => resolve(value)))
  })

const encrypt = async (raw: net.Socket, host: string, mode: TlsMode, deadline: number) => {
  const answer = await awaitSocket<Buffer>(raw, deadline, (resolve) => {
    raw.once('data', resolve)
    raw.write(SSL_REQUEST)
  })
  if (answer[0] !== CAN_ENCRYPT) {
    if (mode === 'prefer') return raw
    raw.destroy()
    throw failure('ESSLREFUSED')
  }
  // More octets than the answer would come from an attacker between the two sides.
  if (answer.length > 1) {
    raw.destroy()
    throw failure('ESSLEXTRADATA')
  }
  const socket = tls.connect({
    socket: raw,
    host,
    ...(net.isIP(host) === 0 ? { servername: host } : {}),
    ...(UNVERIFIED.has(mode) ? { rejectUnauthorized: false } : {}),
    ...(typeof mode === 'object' ? mode : {}),
  })
  await awaitSocket<void>(socket, deadline, (resolve) => socket.once('secureConnect', () => resolve()))
  return socket
}

/** Rejects after `withinMs`, and when the host cannot be reached or trusted. */
export const openSocket = async (
  { host: hosts, path, port: ports }: Target,
  mode: TlsMode,
  /** Which of several hosts. */
  index: number,
  withinMs: number,
): Promise<net.Socket> => {
  const deadline = performance.now() + withinMs
  const host = hosts[index % hosts.length]!
  const port = ports[index % ports.length]!
  const raw =
    typeof path === 'string'
      ? net.connect({ path })
      : net.connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS })
  // Between two waits nobody else listens.
  raw.on('error', () => {})
  await awaitSocket<void>(raw, deadline, (resolve) => raw.once('connect', () => resolve()))
  if (mode === false || mode === undefined || mode === null || typeof path === 'string') return raw
  return encrypt(raw, host, mode, deadline)
}

/**
 * A socket that fails as soon as the driver listens. The driver cannot handle a function that
 * rejects: it would never use that place in its pool again.
 */
export const failedSocket = (error: unknown): net.Socket => {
  const socket = new net.Socket()
  socket.write = () => true
  setImmediate(() => socket.destroy(error instanceof Error ? error : failure('CONNECTION_FAILED')))
  return socket
}
