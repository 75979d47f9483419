/**
 * An SMSC of octets. It shares no code with the adapter: its PDUs are built from SMPP 3.4 (3.2), and those
 * of the client are kept as they arrive.
 */
import { createServer, type Socket } from 'node:net'
import { Effect, type Scope } from 'effect'

export const COMMAND = {
  bind_receiver: 0x01,
  bind_transmitter: 0x02,
  submit_sm: 0x04,
  deliver_sm: 0x05,
  unbind: 0x06,
  bind_transceiver: 0x09,
  enquire_link: 0x15,
  data_sm: 0x103,
} as const
export const RESPONSE = 0x8000_0000

export const cString = (text: string): Buffer => Buffer.from(`${text}\0`, 'latin1')

export const pduOf = (command: number, sequence: number, body: Buffer = Buffer.alloc(0)): Buffer => {
  const header = Buffer.alloc(16)
  header.writeUInt32BE(16 + body.length, 0)
  header.writeUInt32BE(command, 4)
  header.writeUInt32BE(sequence, 12)
  return Buffer.concat([header, body])
}

export interface Delivery {
  readonly command: 'deliver_sm' | 'data_sm'
  readonly source: { readonly ton: number; readonly address: string }
  readonly esmClass: number
  readonly dataCoding: number
  readonly message: Buffer
  readonly tlvs: ReadonlyArray<readonly [string, string]>
}

const tlv = ([tag, hex]: readonly [string, string]): Buffer => {
  const value = Buffer.from(hex, 'hex')
  const head = Buffer.from(`${tag}0000`, 'hex')
  head.writeUInt16BE(value.length, 2)
  return Buffer.concat([head, value])
}

/** A `deliver_sm` or `data_sm` from `source` to HUB. Source: SMPP 3.4, 4.6.1, 4.7.1 and 5.3.2. */
export const deliveryPdu = (
  sequence: number,
  { command, dataCoding, esmClass, message, source, tlvs }: Delivery,
): Buffer => {
  const addresses = Buffer.concat([
    cString(''),
    Buffer.from([source.ton, 1]),
    cString(source.address),
    Buffer.from([5, 0]),
    cString('HUB'),
  ])
  const body =
    command === 'data_sm'
      ? // esm_class, registered_delivery, data_coding
        Buffer.from([esmClass, 0, dataCoding])
      : Buffer.concat([
          // esm_class, protocol_id, priority_flag
          Buffer.from([esmClass, 0, 0]),
          // schedule_delivery_time, validity_period
          cString(''),
          cString(''),
          // registered_delivery, replace_if_present_flag, data_coding, sm_default_msg_id, sm_length
          Buffer.from([0, 0, dataCoding, 0, message.length]),
          message,
        ])
  return pduOf(COMMAND[command], sequence, Buffer.concat([addresses, body, ...tlvs.map(tlv)]))
}

export interface RawSmsc {
  readonly port: number
  /** The PDUs of all clients, in order. */
  readonly received: ReadonlyArray<Buffer>
  /** Writes to the client that connected last. */
  readonly write: (pdu: Buffer) => void
}

/** Listens on the loopback address. `answer` returns what the SMSC writes after a PDU. */
export const startRawSmsc = (
  answer: (command: number, sequence: number) => ReadonlyArray<Buffer>,
): Effect.Effect<RawSmsc, never, Scope.Scope> =>
  Effect.gen(function* () {
    const received: Array<Buffer> = []
    const sockets: Array<Socket> = []
    const server = createServer((socket) => {
      sockets.push(socket)
      let octets: Buffer = Buffer.alloc(0)
      socket.on('error', () => {})
      socket.on('data', (chunk: Buffer) => {
        octets = Buffer.concat([octets, chunk])
        while (octets.length >= 16 && octets.length >= octets.readUInt32BE(0)) {
          const pdu = octets.subarray(0, octets.readUInt32BE(0))
          octets = octets.subarray(pdu.length)
          received.push(pdu)
          for (const written of answer(pdu.readUInt32BE(4), pdu.readUInt32BE(12))) socket.write(written)
        }
      })
    })
    yield* Effect.acquireRelease(
      Effect.promise(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))),
      () =>
        Effect.promise(
          () =>
            new Promise<void>((resolve) => {
              server.close(() => resolve())
              for (const socket of sockets) socket.destroy()
            }),
        ),
    )
    const address = server.address()
    return {
      port: typeof address === 'object' && address !== null ? address.port : 0,
      received,
      write: (pdu) => void sockets.at(-1)?.write(pdu),
    }
  })
