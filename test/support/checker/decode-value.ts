/**
 * Decodes records without the codec of the hub: it parses the wire format itself and decodes values
 * with the `.avsc` file of their schema id.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import avro from 'avsc'

/** A record, decoded with its own schema. Field names are those of the schema. */
export interface TopicRecord {
  readonly partition: number
  readonly offset: number
  /** The name of the record type, such as `MessageSent`. */
  readonly type: string
  readonly value: Readonly<Record<string, any>>
}

const SCHEMAS = join(import.meta.dirname, '../../../packages/kafka/schemas')
const readJson = (file: string): any => JSON.parse(readFileSync(join(SCHEMAS, file), 'utf8'))

const types = new Map<number, { readonly name: string; readonly type: avro.Type }>()
for (const [name, versions] of Object.entries<ReadonlyArray<{ id: number; version: number }>>(
  readJson('ids.json'),
)) {
  for (const { id, version } of versions) {
    types.set(id, { name, type: avro.Type.forSchema(readJson(`${name}.v${version}.avsc`)) })
  }
}

/** Decodes the wire format: magic byte, schema id, Avro. */
export const decodeValue = (bytes: Uint8Array): Pick<TopicRecord, 'type' | 'value'> => {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const found = buffer[0] === 0 ? types.get(buffer.readUInt32BE(1)) : undefined
  if (found === undefined) throw new Error('the record has an unknown schema id')
  return { type: found.name, value: found.type.fromBuffer(buffer.subarray(5)) }
}
