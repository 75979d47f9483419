/**
 * The Avro schemas of the hub's records and their fixed ids.
 *
 * One file a version: `schemas/<Name>.v<version>.avsc`. A published version never changes; a new one is a new file
 * with a new id in `schemas/ids.json`, and must be able to read every earlier version (BACKWARD_TRANSITIVE).
 * `schemaProblems` is the gate that holds this; a unit test runs it over the committed files.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import avro from 'avsc'

/** Names of the record types. They are the facts' own names, and the value of the header `type`. */
export const RECORD_NAMES = [
  'MessageAccepted',
  'HandoverStarted',
  'HandoverRefused',
  'MessageSent',
  'MessageDelivered',
  'MessageUndelivered',
  'MessageRejected',
  'MessageExpired',
  'MessageSeen',
  'OpenMessageCarried',
  'OpenMessagesCarried',
  'ShardOpened',
  'BatchSealed',
  'SubscriptionChanged',
  'EventRecorded',
  'DeliveryReportReceived',
  'InboundMessageReceived',
] as const
export type RecordName = (typeof RECORD_NAMES)[number]

/** One published version of a record's schema. */
export interface SchemaVersion {
  readonly name: string
  /** 1, 2, … without gaps within a name. */
  readonly version: number
  /** The id of the Confluent wire format; unique over all names. */
  readonly id: number
  /** What `fingerprintOf` gave when the version was published. */
  readonly fingerprint: string
  readonly schema: AvroSchema
}

/** An Avro schema as JSON. */
export type AvroSchema = string | ReadonlyArray<AvroSchema> | { readonly [key: string]: unknown }

const folder = new URL('../../schemas/', import.meta.url)
const readJson = (file: string): unknown => JSON.parse(readFileSync(new URL(file, folder), 'utf8'))

type Ids = Record<string, ReadonlyArray<{ version: number; id: number; fingerprint: string }>>

/** The published versions that an index names, in its order. */
export const publicationsOf = (index: string): ReadonlyArray<Publication> =>
  Object.entries(JSON.parse(index) as Ids).flatMap(([name, versions]) =>
    versions.map((version) => ({ name, ...version })),
  )

/** Every published version, oldest first within a name. */
export const SCHEMAS: ReadonlyArray<SchemaVersion> = Object.entries(readJson('ids.json') as Ids).flatMap(
  ([name, versions]) =>
    versions.map(({ version, id, fingerprint }) => ({
      name,
      version,
      id,
      fingerprint,
      schema: readJson(`${name}.v${version}.avsc`) as AvroSchema,
    })),
)

const withoutDocs = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(withoutDocs)
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => key !== 'doc')
      .map(([key, value]) => [key, withoutDocs(value)]),
  )
}

/** SHA-256 of a schema without its documentation, hexadecimal. Words may be mended; anything else is a new version. */
export const fingerprintOf = (schema: AvroSchema): string =>
  createHash('sha256')
    .update(JSON.stringify(withoutDocs(schema)))
    .digest('hex')

/**
 * What is wrong with a set of versions; empty when nothing is. Each sentence names the schema and the cure.
 */
export const schemaProblems = (versions: ReadonlyArray<SchemaVersion>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const ids = new Map<number, string>()
  const earlier = new Map<string, Array<{ readonly version: number; readonly type: avro.Type }>>()
  for (const { name, version, id, fingerprint, schema } of versions) {
    const label = `${name} version ${version}`
    const taken = ids.get(id)
    if (taken !== undefined) problems.push(`${label} has the id ${id} of ${taken}; ids are never used twice.`)
    ids.set(id, label)
    if (fingerprintOf(schema) !== fingerprint) {
      problems.push(
        `${label} is published under id ${id} and has changed since; add a version instead ` +
          `(its fingerprint is now ${fingerprintOf(schema)}).`,
      )
    }
    let type: avro.Type
    try {
      type = parse(schema)
    } catch (error) {
      problems.push(
        `${label} is not an Avro schema: ${error instanceof Error ? error.message : String(error)}`,
      )
      continue
    }
    if (type.name?.split('.').at(-1) !== name)
      problems.push(`${label} describes ${type.name ?? 'no record'}.`)
    const before = earlier.get(name) ?? []
    if (version !== before.length + 1) problems.push(`${label} should be version ${before.length + 1}.`)
    for (const writer of before) {
      try {
        type.createResolver(writer.type)
      } catch (error) {
        const why = error instanceof Error ? error.message.split('\n')[0] : String(error)
        problems.push(`${label} cannot read version ${writer.version} (BACKWARD_TRANSITIVE): ${why}`)
      }
    }
    earlier.set(name, [...before, { version, type }])
  }
  return problems
}

/** A version as an index of published versions (`ids.json`) names it. */
export type Publication = Pick<SchemaVersion, 'name' | 'version' | 'id' | 'fingerprint'>

/**
 * What was published once and is not there any more as it was, and what is new under an id below those; empty when all is well. Records under
 * published ids are in topics: `schemaProblems` compares files with their index, this compares the index with what it was.
 */
export const publicationProblems = (
  now: ReadonlyArray<Publication>,
  published: ReadonlyArray<Publication>,
): ReadonlyArray<string> => {
  const isSame = (one: Publication, other: Publication): boolean =>
    one.name === other.name && one.version === other.version
  const newest = Math.max(0, ...published.map(({ id }) => id))
  const changed = published.flatMap((was) => {
    const { fingerprint, id, name, version } = was
    const label = `${name} version ${version}`
    const found = now.find((one) => isSame(one, was))
    if (found === undefined) return [`${label} was published under id ${id} and is gone; put it back.`]
    if (found.id !== id)
      return [`${label} was published under id ${id} and has ${found.id} now; put it back.`]
    return found.fingerprint === fingerprint
      ? []
      : [`${label} was published under id ${id} with another content; add a version instead.`]
  })
  const low = now
    .filter((one) => one.id <= newest && !published.some((was) => isSame(was, one)))
    .map(
      ({ id, name, version }) =>
        `${name} version ${version} is new under id ${id}, and ids up to ${newest} are published; take the next one: by it readers tell what is newer than they are.`,
    )
  return [...changed, ...low]
}

const parse = (schema: AvroSchema): avro.Type =>
  avro.Type.forSchema(schema as avro.Schema, { noAnonymousTypes: false })

const camel = (name: string) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** The schema with its field names as the code writes them. Names are not on the wire, so the bytes are the same. */
const inCodeNames = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(inCodeNames)
  if (typeof schema !== 'object' || schema === null) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    out[key] =
      key === 'fields'
        ? (value as ReadonlyArray<Record<string, unknown>>).map((field) => ({
            ...field,
            name: camel(String(field['name'])),
            type: inCodeNames(field['type']),
          }))
        : key === 'items' || key === 'values' || key === 'type'
          ? inCodeNames(value)
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
 * An array's length is data: a damaged record may announce two thousand million items, which avsc would
 * allocate and loop over. No item of ours takes less than a byte, so a longer count than what is left is damage;
 * reading past the end is how avsc notices that a buffer is too short.
 */
class BoundedArrayType extends avro.types.ArrayType {
  // Takes the place of avsc's own reader. A resolver copies it, so it reads through `this`.
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

/** The Avro type of a schema, with field names as the code writes them. Throws on a schema that is none. */
export const codecType = (schema: AvroSchema): avro.Type =>
  avro.Type.forSchema(inCodeNames(schema) as avro.Schema, {
    omitRecordMethods: true,
    typeHook: (part, options) =>
      isArraySchema(part) ? new BoundedArrayType(part as never, options) : undefined,
  })
