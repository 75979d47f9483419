/**
 * The PDUs of SMPP 3.4: a table of commands, fields and TLVs, a decoder that no octets make fail, an
 * encoder, and the division of a stream into PDUs.
 */
export type { Command } from './definitions.ts'
export { decodePdu, type Pdu } from './decode.ts'
export { encodePdu, type Fields, makeContent, makePduWriter } from './encode.ts'
export { makeFrames } from './frames.ts'
export { nextSequence } from './sequence.ts'
