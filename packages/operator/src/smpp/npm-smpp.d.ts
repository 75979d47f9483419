/** Types of the PDU codec of npm `smpp`, which has none. */
declare module 'smpp/lib/pdu.js' {
  export class PDU {
    /** Decodes a complete PDU, or makes one to encode. Throws if the octets are no PDU. */
    constructor(commandOrOctets: string | Uint8Array, fields?: Readonly<Record<string, unknown>>)
    toBuffer(): Buffer
    /** Converts texts and dates by the codec's own rules. */
    _filter(direction: 'encode' | 'decode'): void
    readonly [field: string]: unknown
  }
}
