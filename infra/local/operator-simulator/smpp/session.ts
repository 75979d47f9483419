/**
 * One connection of a client. It divides the stream into PDUs, refuses the requests that SMPP 3.4 refuses,
 * and matches responses with requests. npm `smpp` decodes and encodes.
 */
import type { Socket } from 'node:net'
import { codec, type Pdu, STATUS } from './codec.ts'
import { type Refusal, refusalOf, type State } from './rules.ts'

const HEADER_OCTETS = 16
/** More than a PDU with the longest `message_payload` needs: 64 kB (SMPP 3.4, 5.3.2.32). */
const MAX_PDU_OCTETS = 70_000

interface SessionOptions {
  readonly state: () => State
  /** A response has arrived, or a request that the standard does not refuse. */
  readonly onArrival: (pdu: Pdu) => void
  readonly onRequest: (pdu: Pdu) => void
  readonly onRefused: (refusal: Refusal) => void
  readonly onClose: () => void
}

export interface Session {
  readonly socket: Socket
  /** Writes a PDU. Returns false if the connection is closed. */
  readonly send: (pdu: Pdu, onResponse?: (response: Pdu) => void) => boolean
  /** The number of requests of a command that have no answer yet. */
  readonly outstanding: (command: string) => number
  /** Forgets a request that gets no answer. */
  readonly abandon: (request: Pdu) => void
  readonly destroy: () => void
}

export const makeSession = (socket: Socket, options: SessionOptions): Session => {
  let received: Buffer = Buffer.alloc(0)
  let lastSequence = 0
  const waiting = new Map<number, (response: Pdu) => void>()
  /** The commands of the client's requests without an answer, by sequence number. */
  const unanswered = new Map<number, string>()

  const send: Session['send'] = (pdu, onResponse) => {
    if (!socket.writable) return false
    if (pdu.isResponse()) unanswered.delete(pdu.sequence_number)
    else {
      lastSequence = lastSequence >= 0x7fff_ffff ? 1 : lastSequence + 1
      pdu.sequence_number = lastSequence
      if (onResponse !== undefined) waiting.set(lastSequence, onResponse)
    }
    socket.write(pdu.toBuffer())
    return true
  }

  /** SMPP 3.4, 4.3 */
  const nack = (sequence_number: number, command_status: number): void =>
    void send(new codec.PDU('generic_nack', { sequence_number, command_status }))

  const handleRequest = (frame: Buffer): void => {
    const refusal = refusalOf(frame, options.state(), (number) => unanswered.has(number))
    if (refusal === null) {
      const pdu = new codec.PDU(frame)
      unanswered.set(pdu.sequence_number, pdu.command)
      options.onArrival(pdu)
      return options.onRequest(pdu)
    }
    options.onRefused(refusal)
    // npm `smpp` may be unable to read a refused body. The header is enough for the answer.
    const header = Buffer.from(frame.subarray(0, HEADER_OCTETS))
    header.writeUInt32BE(HEADER_OCTETS)
    const pdu = new codec.PDU(header)
    if (refusal.isHeader === true) return nack(pdu.sequence_number, refusal.status)
    // Not `send`: another request with this sequence number may still wait for its answer.
    socket.write(pdu.response({ command_status: refusal.status }).toBuffer())
  }

  const handle = (frame: Buffer): void => {
    const id = frame.readUInt32BE(4)
    const isResponse = id >= 0x8000_0000
    if (codec.commandsById[id] === undefined) {
      if (!isResponse) nack(frame.readUInt32BE(12), STATUS.invalidCommand)
      return
    }
    if (!isResponse) return handleRequest(frame)
    const pdu = new codec.PDU(frame)
    options.onArrival(pdu)
    waiting.get(pdu.sequence_number)?.(pdu)
    waiting.delete(pdu.sequence_number)
  }

  socket.setNoDelay(true)
  socket.on('data', (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    while (received.length >= 4 && !socket.destroyed) {
      const length = received.readUInt32BE(0)
      if (length < HEADER_OCTETS || length > MAX_PDU_OCTETS) {
        // The data is corrupt, so nobody knows where the next PDU begins.
        nack(0, STATUS.invalidLength)
        options.onRefused({
          status: STATUS.invalidLength,
          section: '4.3',
          rule: 'command_length is at least 16 and not too long',
        })
        received = Buffer.alloc(0)
        return socket.destroySoon()
      }
      if (received.length < length) return
      const frame = received.subarray(0, length)
      received = received.subarray(length)
      try {
        handle(frame)
      } catch {
        // A response that npm `smpp` cannot read.
        socket.destroy()
      }
    }
  })
  socket.on('error', () => socket.destroy())
  socket.on('close', options.onClose)

  return {
    socket,
    send,
    outstanding: (command) => [...unanswered.values()].filter((one) => one === command).length,
    abandon: (request) => void unanswered.delete(request.sequence_number),
    destroy: () => socket.destroy(),
  }
}
