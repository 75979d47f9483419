/**
 * Asks each server, in its own protocol, whether it answers. A port that accepts connections says little: all
 * three listen before they serve. Written by hand because a few bytes need no driver.
 */
import { connect } from 'node:net'

/** A probe that has not been answered by then is repeated; a loopback answer takes well under a millisecond. */
const PROBE_TIMEOUT_MS = 1_000

const exchange = (
  port: number,
  request: Buffer,
  judge: (received: Buffer) => boolean | null,
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
      const verdict = judge(received)
      if (verdict !== null) finish(verdict)
    })
  })

/** `PING` is answered `+PONG` once the data is loaded (`-LOADING` before). */
export const isRedisReady = (port: number): Promise<boolean> =>
  exchange(port, Buffer.from('PING\r\n'), (received) =>
    received.includes('\r\n') ? received.toString('latin1').startsWith('+PONG') : null,
  )

/** A start-up message gets an authentication request (`R`) when connections are taken, an error (`E`) before. */
export const isPostgresReady = (port: number): Promise<boolean> => {
  const parameters = Buffer.from('user\0hub\0database\0postgres\0\0')
  const message = Buffer.alloc(8 + parameters.length)
  message.writeInt32BE(message.length, 0)
  message.writeInt32BE(196_608, 4) // protocol 3.0
  parameters.copy(message, 8)
  return exchange(port, message, (received) => (received.length === 0 ? null : received[0] === 0x52))
}

/** A request frame: length, api key, version, correlation id, client id, body. */
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

/** Judges a whole response; null while it has not come in full. The correlation id ends at 8. */
const kafkaResponse =
  (judge: (response: Buffer) => boolean) =>
  (received: Buffer): boolean | null =>
    received.length < 4 || received.length < 4 + received.readInt32BE(0) ? null : judge(received)

const METADATA = 3
const FIND_COORDINATOR = 10
const PROBE_GROUP = 'hub-probe'

/**
 * A metadata request (version 1, no topics) names a broker once it is in the cluster; and a coordinator is found for
 * a group once the topic of offsets is there, which the first question creates: consumers that join before that are
 * turned away.
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

/** Whether a GET of a URL is answered 200. */
export const isHttpReady = async (url: string): Promise<boolean> => {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) })
    await response.body?.cancel()
    return response.status === 200
  } catch {
    return false
  }
}
