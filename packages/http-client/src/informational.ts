/**
 * Removes informational responses (1xx) before undici reads them. undici closes the connection at a 100,
 * although the server answers the request afterwards; its maintainers do not plan to change this. A
 * client must be able to parse such responses, also unexpected ones, and may ignore them (RFC 9110, 15.2).
 */
import type { Socket } from 'node:net'
import type { buildConnector } from 'undici'

/** Before one final response. A server sends one or two. */
const MOST_RESPONSES = 16
/** Of all of them together. undici allows as many for the headers of one response. */
const MOST_BYTES = 16_384

/** Decides by the begin of a status line. 101 is none: after it the connection has another protocol. */
const INFORMATIONAL = /^HTTP\/\d\.\d 1(?!01)\d\d[ \r]/u
const EXAMPLE = 'HTTP/1.1 100 '

const NOTHING = Buffer.alloc(0)
const CR = 13
const LF = 10

/** The octets before a final response. */
class Interim {
  #held: Buffer = NOTHING
  #removedBytes = 0
  #removedResponses = 0

  /** Returns the first octets of the final response, or `null` if it has not begun. */
  add(chunk: Buffer): Buffer | null {
    let octets = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    for (;;) {
      // The parser of undici skips empty lines, too.
      let empty = 0
      while (octets[empty] === CR || octets[empty] === LF) empty++
      octets = this.#remove(octets, empty)
      const start = octets.toString('latin1', 0, EXAMPLE.length)
      // A line that is not complete may still become one of an informational response.
      if (!INFORMATIONAL.test(start + EXAMPLE.slice(start.length))) return octets
      const end = octets.indexOf('\r\n\r\n')
      if (end < 0) {
        if (this.#removedBytes + octets.length > MOST_BYTES) {
          throw new Error('the informational responses are too long')
        }
        this.#held = octets
        return null
      }
      octets = this.#remove(octets, end + 4)
      this.#removedResponses++
      if (this.#removedResponses > MOST_RESPONSES) throw new Error('too many informational responses')
    }
  }

  #remove(octets: Buffer, count: number): Buffer {
    this.#removedBytes += count
    return octets.subarray(count)
  }
}

const skipInformational = (socket: Socket): void => {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null
  const write = socket.write.bind(socket) as (...values: ReadonlyArray<unknown>) => boolean
  let interim: Interim | null = null

  // A request is written in one turn of the event loop, and after the response to the one before it.
  socket.write = (...values: ReadonlyArray<unknown>) => {
    interim = new Interim()
    return write(...values)
  }
  socket.read = (size?: number) => {
    for (;;) {
      const chunk = read(size)
      if (chunk === null || interim === null) return chunk
      try {
        const octets = interim.add(chunk)
        if (octets === null) continue
        interim = null
        return octets
      } catch (error) {
        socket.destroy(error as Error)
        return null
      }
    }
  }
}

/**
 * Connections whose informational responses undici does not see, for clients that send one request at a
 * time (`pipelining: 1`) with a body in memory.
 */
export const skippingInformational =
  (connect: buildConnector.connector): buildConnector.connector =>
  (target, done) => {
    connect(target, (...result) => {
      if (result[0] === null) skipInformational(result[1])
      done(...result)
    })
  }
