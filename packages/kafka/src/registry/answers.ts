/**
 * Answers of a Confluent-compatible schema registry, read-only, as data. Served under `/schema-registry` where no
 * registry is configured, so that a stock Avro consumer works against a local hub.
 *
 * Subjects are named by RecordNameStrategy: the record's full name (`hub.MessageSent`). A topic of the hub holds
 * several record types, and the same type may live in more than one topic (the two lanes), so neither the topic's
 * name nor topic and record together would name a schema once.
 */
import { SCHEMAS, type SchemaVersion } from '../schemas/schemas.ts'

/** What to answer: JSON of type `application/vnd.schemaregistry.v1+json`. */
export interface RegistryAnswer {
  readonly status: 200 | 404 | 422
  readonly body: unknown
}

export const REGISTRY_CONTENT_TYPE = 'application/vnd.schemaregistry.v1+json'

const ok = (body: unknown): RegistryAnswer => ({ status: 200, body })
const NO_SUBJECT: RegistryAnswer = { status: 404, body: { error_code: 40401, message: 'Subject not found.' } }
const NO_VERSION: RegistryAnswer = { status: 404, body: { error_code: 40402, message: 'Version not found.' } }
const NO_SCHEMA: RegistryAnswer = { status: 404, body: { error_code: 40403, message: 'Schema not found' } }
const BAD_VERSION: RegistryAnswer = {
  status: 422,
  body: {
    error_code: 42202,
    message:
      'The specified version is not a valid version id. Allowed values are 1 to 2147483647 and "latest".',
  },
}

/** The subject of a record type. */
export const subjectOf = (name: string): string => `hub.${name}`

const text = (version: SchemaVersion) => JSON.stringify(version.schema)
const number = (word: string) => (/^[0-9]{1,10}$/.test(word) ? Number(word) : null)
const bySubject = Map.groupBy(SCHEMAS, ({ name }) => subjectOf(name))
const byId = new Map(SCHEMAS.map((version) => [version.id, version]))

/** `GET /schemas/ids/{id}` */
export const schemaById = (id: string): RegistryAnswer => {
  const found = byId.get(number(id) ?? -1)
  return found === undefined ? NO_SCHEMA : ok({ schema: text(found) })
}

/** `GET /subjects` */
export const subjects = (): RegistryAnswer => ok([...bySubject.keys()])

/** `GET /subjects/{subject}/versions` */
export const subjectVersions = (subject: string): RegistryAnswer => {
  const versions = bySubject.get(subject)
  return versions === undefined ? NO_SUBJECT : ok(versions.map(({ version }) => version))
}

/** `GET /subjects/{subject}/versions/{version}`; a number or `latest`. */
export const subjectVersion = (subject: string, version: string): RegistryAnswer => {
  const versions = bySubject.get(subject)
  if (versions === undefined) return NO_SUBJECT
  const wanted = version === 'latest' ? versions.length : number(version)
  if (wanted === null || wanted < 1 || wanted > 2147483647) return BAD_VERSION
  const found = versions.find((one) => one.version === wanted)
  return found === undefined
    ? NO_VERSION
    : ok({ subject, version: found.version, id: found.id, schemaType: 'AVRO', schema: text(found) })
}

/** The answer to a path below `/schema-registry`, for example `/subjects/hub.MessageSent/versions/latest`. */
export const registryAnswer = (path: string): RegistryAnswer => {
  const [first, second, third, fourth, ...rest] = path
    .split('?', 1)[0]!
    .split('/')
    .filter((part) => part !== '')
  const missing: RegistryAnswer = { status: 404, body: { error_code: 404, message: 'HTTP 404 Not Found' } }
  if (rest.length > 0) return missing
  if (first === 'schemas' && second === 'ids' && third !== undefined && fourth === undefined)
    return schemaById(third)
  if (first !== 'subjects') return missing
  if (second === undefined) return subjects()
  if (third !== 'versions') return missing
  const subject = decoded(second)
  if (subject === null) return NO_SUBJECT
  return fourth === undefined ? subjectVersions(subject) : subjectVersion(subject, fourth)
}

const decoded = (part: string): string | null => {
  try {
    return decodeURIComponent(part)
  } catch {
    return null
  }
}
