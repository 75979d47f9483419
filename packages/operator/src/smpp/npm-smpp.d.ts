/** Types of npm `smpp`, which has none. */
declare module 'smpp/lib/pdu.js' {
  export class PDU {
    /** Decodes a complete PDU, or makes one to encode. Throws if the octets are no PDU. */
    constructor(commandOrOctets: string | Uint8Array, fields?: Readonly<Record<string, unknown>>)
    toBuffer(): Buffer
    /** Converts texts and dates by the codec's own rules. */
    _filter(direction: 'encode' | 'decode'): void
    response(fields?: Readonly<Record<string, unknown>>): PDU
    readonly [field: string]: unknown
  }
}

declare module 'smpp' {
  import type { Server } from 'node:net'
  import type { PDU } from 'smpp/lib/pdu.js'

  interface Session {
    on(event: string, listener: (pdu: PDU) => void): void
    send(pdu: PDU): boolean
  }
  export function createServer(onSession: (session: Session) => void): Server
}

declare module 'smpp/lib/defs.js' {
  export const tlvs: Readonly<Record<string, { readonly id: number }>>
}
