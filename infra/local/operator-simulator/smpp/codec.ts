/** Types for the parts of npm's `smpp` that the simulator uses. The package has no types. */
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'

/** The user data of a message. Without a text coding, `message` is a buffer. */
interface Message {
  readonly udh?: ReadonlyArray<Buffer>
  readonly message: string | Buffer
}

/** A PDU, with the fields that the simulator reads. */
export interface Pdu {
  readonly command: string
  readonly command_status: number
  /** Set when a request is sent. */
  sequence_number: number
  readonly system_id?: string
  readonly password?: string
  readonly source_addr?: string
  readonly destination_addr?: string
  readonly dest_addr_ton?: number
  readonly registered_delivery?: number
  readonly esm_class?: number
  readonly data_coding?: number
  readonly short_message?: Message
  readonly message_payload?: Message
  readonly message_id?: string
  readonly receipted_message_id?: string
  readonly message_state?: number
  readonly sar_msg_ref_num?: number
  readonly sar_total_segments?: number
  readonly sar_segment_seqnum?: number
  readonly isResponse: () => boolean
  readonly response: (fields?: Readonly<Record<string, unknown>>) => Pdu
  readonly toBuffer: () => Buffer
}

/** A session of a client, for tests. */
export interface ClientSession {
  readonly socket: Socket
  readonly on: {
    (event: 'pdu', listener: (pdu: Pdu) => void): void
    (event: 'close' | 'connect', listener: () => void): void
    (event: 'error', listener: (error: Error) => void): void
  }
  /** Writes a PDU. Returns false if the connection is closed. */
  readonly send: (pdu: Pdu, onResponse?: (response: Pdu) => void) => boolean
  readonly destroy: () => void
}

interface Codec {
  readonly connect: (options: { readonly host: string; readonly port: number }) => ClientSession
  readonly PDU: new (commandOrOctets: string | Buffer, fields?: Readonly<Record<string, unknown>>) => Pdu
  readonly commands: Readonly<Record<string, unknown>>
  readonly commandsById: Readonly<Record<number, unknown>>
}

export const codec = createRequire(import.meta.url)('smpp') as Codec

/** `command_status` of the responses (SMPP 3.4, 5.1.3). */
export const STATUS = {
  ok: 0x00,
  invalidLength: 0x02,
  invalidCommand: 0x03,
  invalidDestination: 0x0b,
  invalidPassword: 0x0e,
  invalidSystemId: 0x0f,
  throttled: 0x58,
  /** From the vendor-specific range: the content is rejected as spam. */
  spam: 0x0410,
} as const
