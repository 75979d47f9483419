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
export const redisAnswers = (port: number): Promise<boolean> =>
  exchange(port, Buffer.from('PING\r\n'), (received) =>
    received.includes('\r\n') ? received.toString('latin1').startsWith('+PONG') : null,
  )

/** A start-up message gets an authentication request (`R`) when connections are taken, an error (`E`) before. */
export const postgresAnswers = (port: number): Promise<boolean> => {
  const parameters = Buffer.from('user\0hub\0database\0postgres\0\0')
  const message = Buffer.alloc(8 + parameters.length)
  message.writeInt32BE(message.length, 0)
  message.writeInt32BE(196_608, 4) // protocol 3.0
  parameters.copy(message, 8)
  return exchange(port, message, (received) => (received.length === 0 ? null : received[0] === 0x52))
}

/** A metadata request (version 1, no topics) names a controller and a broker once the broker is in the cluster. */
export const kafkaAnswers = (port: number): Promise<boolean> => {
  const client = Buffer.from('probe')
  const body = Buffer.alloc(10 + client.length + 4)
  body.writeInt16BE(3, 0) // Metadata
  body.writeInt16BE(1, 2)
  body.writeInt32BE(1, 4) // correlation id
  body.writeInt16BE(client.length, 8)
  client.copy(body, 10)
  body.writeInt32BE(0, 10 + client.length) // an empty list: no topics
  const frame = Buffer.alloc(4)
  frame.writeInt32BE(body.length, 0)
  return exchange(port, Buffer.concat([frame, body]), (received) => {
    if (received.length < 4 || received.length < 4 + received.readInt32BE(0)) return null
    return received.readInt32BE(8) > 0
  })
}

/** Whether a GET of a URL is answered 200. */
export const httpAnswers = async (url: string): Promise<boolean> => {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) })
    await response.body?.cancel()
    return response.status === 200
  } catch {
    return false
  }
}
