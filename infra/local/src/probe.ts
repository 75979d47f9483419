/**
 * Readiness probes of the servers, each in the protocol of the server. An open port is not enough,
 * because all three servers listen before they serve. A few bytes need no driver.
 */
import { connect } from 'node:net'

/** Timeout of a probe, which is then repeated. A ready server answers in less than 1 ms. */
const PROBE_TIMEOUT_MS = 1_000

const exchange = (
  port: number,
  request: Buffer,
  /** Returns null while the response is incomplete. */
  evaluate: (received: Buffer) => boolean | null,
): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    let received: Buffer = Buffer.alloc(0)
    const finish = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(PROBE_TIMEOUT_MS, () => finish(false))
    socket.once('error', () => finish(false))
    socket.once('close', () => finish(false))
    socket.once('connect', () => socket.write(request))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      const isReady = evaluate(received)
      if (isReady !== null) finish(isReady)
    })
  })

/** Redis answers `PING` with `-LOADING` until its data is loaded, then with `+PONG`. */
export const isRedisReady = (port: number): Promise<boolean> =>
  exchange(port, Buffer.from('PING\r\n'), (received) =>
    received.includes('\r\n') ? received.toString('latin1').startsWith('+PONG') : null,
  )

/** PostgreSQL answers a start-up message with an error (`E`) until it is ready, then with `R`. */
export const isPostgresReady = (port: number): Promise<boolean> => {
  const parameters = Buffer.from('user\0hub\0database\0postgres\0\0')
  const message = Buffer.alloc(8 + parameters.length)
  message.writeInt32BE(message.length, 0)
  message.writeInt32BE(196_608, 4) // protocol 3.0
  parameters.copy(message, 8)
  return exchange(port, message, (received) => (received.length === 0 ? null : received[0] === 0x52))
}

/** A request frame of Kafka: length, API key, version, correlation id, client id, body. */
const kafkaRequest = (apiKey: number, version: number, body: Buffer): Buffer => {
  const client = Buffer.from('probe')
  const head = Buffer.alloc(14)
  head.writeInt32BE(10 + client.length + body.length, 0)
  head.writeInt16BE(apiKey, 4)
  head.writeInt16BE(version, 6)
  head.writeInt32BE(1, 8)
  head.writeInt16BE(client.length, 12)
  return Buffer.concat([head, client, body])
}

/** Evaluates a complete response; its body begins at byte 8. Null while it is incomplete. */
const kafkaResponse =
  (evaluate: (response: Buffer) => boolean) =>
  (received: Buffer): boolean | null =>
    received.length < 4 || received.length < 4 + received.readInt32BE(0) ? null : evaluate(received)

const METADATA = 3
const FIND_COORDINATOR = 10
const PROBE_GROUP = 'hub-probe'

/**
 * Whether consumers can join groups. The metadata response must name a broker, which shows that the
 * broker has joined the cluster. The FindCoordinator request creates the offsets topic and succeeds
 * when that topic exists. Before that, Kafka refuses consumers.
 */
export const isKafkaReady = async (port: number): Promise<boolean> => {
  const noTopics = Buffer.alloc(4)
  const registered = await exchange(
    port,
    kafkaRequest(METADATA, 1, noTopics),
    kafkaResponse((response) => response.readInt32BE(8) > 0),
  )
  if (!registered) return false
  const group = Buffer.alloc(2 + PROBE_GROUP.length)
  group.writeInt16BE(PROBE_GROUP.length, 0)
  group.write(PROBE_GROUP, 2)
  return exchange(
    port,
    kafkaRequest(FIND_COORDINATOR, 0, group),
    kafkaResponse((response) => response.readInt16BE(8) === 0),
  )
}

/** Whether a GET request of a URL returns 200. */
export const isHttpReady = async (url: string): Promise<boolean> => {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) })
    await response.body?.cancel()
    return response.status === 200
  } catch {
    return false
  }
}
