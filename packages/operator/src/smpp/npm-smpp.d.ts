/** What is used of npm `smpp`, which ships no types: the codec of PDUs. Its session and its server are not used. */
declare module 'smpp/lib/pdu.js' {
  export class PDU {
    /** Reads a whole PDU, or makes one to be written. Throws where the octets make no PDU. */
    constructor(commandOrOctets: string | Uint8Array, fields?: Readonly<Record<string, unknown>>)
    toBuffer(): Buffer
    /** Applies the codec's own ideas of texts and dates. */
    _filter(direction: 'encode' | 'decode'): void
    readonly [field: string]: unknown
  }
}
