/**
 * The rules for schemas, which `scripts/gate.ts` checks: a published version never changes, each
 * can read all versions before it (BACKWARD_TRANSITIVE), and ids ascend.
 */
import { createHash } from 'node:crypto'
import avro from 'avsc'
import type { AvroSchema, SchemaIndex, SchemaVersion } from './schemas.ts'

const withoutDocs = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(withoutDocs)
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => key !== 'doc')
      .map(([key, value]) => [key, withoutDocs(value)]),
  )
}

/** Hexadecimal SHA-256 of a schema without its documentation, which may change. */
export const fingerprintOf = (schema: AvroSchema): string =>
  createHash('sha256')
    .update(JSON.stringify(withoutDocs(schema)))
    .digest('hex')

/** The errors of a set of versions. Each error names the schema and the remedy. */
export const schemaProblems = (versions: ReadonlyArray<SchemaVersion>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const ids = new Map<number, string>()
  const earlier = new Map<string, Array<{ readonly version: number; readonly type: avro.Type }>>()
  for (const { name, version, id, fingerprint, schema } of versions) {
    const label = `${name} version ${version}`
    const taken = ids.get(id)
    if (taken !== undefined) problems.push(`${label} has the id ${id} of ${taken}; ids are never used twice.`)
    ids.set(id, label)
    if (fingerprint === '') {
      problems.push(`${label} has no fingerprint yet; enter ${fingerprintOf(schema)}.`)
    } else if (fingerprintOf(schema) !== fingerprint) {
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
      const why = readingProblem(type, writer.type)
      if (why !== null) {
        problems.push(`${label} cannot read version ${writer.version} (BACKWARD_TRANSITIVE): ${why}`)
      }
    }
    earlier.set(name, [...before, { version, type }])
  }
  return problems
}

/** An entry of an index of published versions (`ids.json`). */
export type Publication = Pick<SchemaVersion, 'name' | 'version' | 'id' | 'fingerprint'>

/**
 * Published versions that are missing or changed, and new versions with an id that is not the next
 * one; empty when the index is valid. Topics contain records with published ids. `schemaProblems`
 * compares files with their index, this function compares the index with its history.
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

/** The entries of an index file, in its order. */
export const publicationsOf = (index: string): ReadonlyArray<Publication> =>
  Object.entries(JSON.parse(index) as SchemaIndex).flatMap(([name, versions]) =>
    versions.map((version) => ({ name, ...version })),
  )

/** Throws for an invalid schema. */
export const parse = (schema: AvroSchema): avro.Type =>
  avro.Type.forSchema(schema as avro.Schema, { noAnonymousTypes: false })

/** Why the reader cannot read what the writer has written; `null`: it can. */
export const readingProblem = (reader: avro.Type, writer: avro.Type): string | null => {
  try {
    reader.createResolver(writer)
    return null
  } catch (error) {
    return error instanceof Error ? error.message.split('\n')[0]! : String(error)
  }
}

/** Whether two schemas are the same for readers: documentation, order and spelling do not matter. */
export const isSameSchema = (one: AvroSchema, other: AvroSchema): boolean => {
  const [first, second] = [one, other].map((schema) =>
    JSON.stringify(parse(schema).schema({ exportAttrs: true })),
  )
  return first === second
}
