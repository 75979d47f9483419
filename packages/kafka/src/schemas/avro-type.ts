/** Avro types for the codec: with the field names of the code, and safe against damaged records. */
import avro from 'avsc'
import type { AvroSchema } from './schemas.ts'

const camelCase = (name: string) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** Fields that the code calls by its own terms (docs/glossary.md), by their older names in the schemas. */
const TERMS: Readonly<Record<string, string>> = {
  sealed: 'ciphertext',
  rawSealed: 'rawCiphertext',
  sealingKey: 'payloadKey',
}
const SCHEMA_NAMES = new Map(Object.entries(TERMS).map(([name, term]) => [term, name]))

const fieldName = (name: string): string => TERMS[camelCase(name)] ?? camelCase(name)

/** The name of a field in its schema, in camelCase. */
export const schemaName = (field: string): string => SCHEMA_NAMES.get(field) ?? field

/** The schema with the field names of the code. The encoding contains no names. */
const withCodeNames = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(withCodeNames)
  if (typeof schema !== 'object' || schema === null) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    out[key] =
      key === 'fields'
        ? (value as ReadonlyArray<Record<string, unknown>>).map((field) => ({
            ...field,
            name: fieldName(String(field['name'])),
            type: withCodeNames(field['type']),
          }))
        : key === 'items' || key === 'values' || key === 'type'
          ? withCodeNames(value)
          : value
  }
  return out
}

interface Tap {
  readonly buf: Uint8Array
  pos: number
  readLong(): number
  skipLong(): void
}

/**
 * Rejects an array that is longer than the record: a damaged record may announce two billion items,
 * which avsc would allocate. Each item has at least one byte. Reading past the end reports a
 * truncated buffer to avsc.
 */
class BoundedArrayType extends avro.types.ArrayType {
  // Overrides the reader of avsc. A resolver copies this function, so it must use `this`.
  _read(this: { readonly itemsType: unknown }, tap: Tap): Array<unknown> {
    const items = this.itemsType as { _read(tap: Tap): unknown }
    const out: Array<unknown> = []
    for (;;) {
      let count = tap.readLong()
      if (count === 0) return out
      if (count < 0) {
        count = -count
        tap.skipLong()
      }
      if (!(count <= tap.buf.length - tap.pos)) {
        tap.pos = tap.buf.length + 1
        return out
      }
      for (let i = 0; i < count; i++) out.push(items._read(tap))
    }
  }
}

const isArraySchema = (schema: unknown): boolean =>
  typeof schema === 'object' && schema !== null && 'type' in schema && schema.type === 'array'

/** The Avro type of a schema, with the field names of the code. Throws for an invalid schema. */
export const codecType = (schema: AvroSchema): avro.Type =>
  avro.Type.forSchema(withCodeNames(schema) as avro.Schema, {
    omitRecordMethods: true,
    typeHook: (part, options) =>
      isArraySchema(part) ? new BoundedArrayType(part as never, options) : undefined,
  })

/** A Buffer over the same memory, which avsc requires. */
export const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
