/**
 * Read-only answers of a Confluent-compatible schema registry. command-api serves them below
 * `/schema-registry` where no registry is configured, so that a standard Avro consumer can read the
 * topics of a local hub.
 *
 * Subjects follow RecordNameStrategy: the full name of the record (`hub.MessageSent`). A topic has
 * several record types, and both lanes have the same type, so the name of a topic identifies no
 * schema.
 */
import { SCHEMAS, type SchemaVersion } from '../schemas/schemas.ts'

/** The body is JSON of type `REGISTRY_CONTENT_TYPE`. */
interface RegistryAnswer {
  readonly status: 200 | 404 | 422
  readonly body: unknown
}

export const REGISTRY_CONTENT_TYPE = 'application/vnd.schemaregistry.v1+json'

const error = (status: 404 | 422, code: number, message: string): RegistryAnswer => ({
  status,
  body: { error_code: code, message },
})
const ok = (body: unknown): RegistryAnswer => ({ status: 200, body })
const NO_RESOURCE = error(404, 404, 'HTTP 404 Not Found')
const NO_SUBJECT = error(404, 40401, 'Subject not found.')
const NO_VERSION = error(404, 40402, 'Version not found.')
const NO_SCHEMA = error(404, 40403, 'Schema not found')
const BAD_VERSION = error(
  422,
  42202,
  'The specified version is not a valid version id. Allowed values are 1 to 2147483647 and "latest".',
)

export const subjectOf = (name: string): string => `hub.${name}`

const schemaText = (version: SchemaVersion) => JSON.stringify(version.schema)
const numberIn = (text: string) => (/^[0-9]{1,10}$/.test(text) ? Number(text) : null)
const bySubject = Map.groupBy(SCHEMAS, ({ name }) => subjectOf(name))
const byId = new Map(SCHEMAS.map((version) => [version.id, version]))

/** `GET /schemas/ids/{id}` */
const schemaById = (id: string): RegistryAnswer => {
  const found = byId.get(numberIn(id) ?? -1)
  return found === undefined ? NO_SCHEMA : ok({ schema: schemaText(found) })
}

/** `GET /subjects/{subject}/versions` */
const subjectVersions = (subject: string): RegistryAnswer => {
  const versions = bySubject.get(subject)
  return versions === undefined ? NO_SUBJECT : ok(versions.map(({ version }) => version))
}

/** `GET /subjects/{subject}/versions/{version}`; a number or `latest`. */
const subjectVersion = (subject: string, version: string): RegistryAnswer => {
  const versions = bySubject.get(subject)
  if (versions === undefined) return NO_SUBJECT
  const number = version === 'latest' ? versions.length : numberIn(version)
  if (number === null || number < 1 || number > 2147483647) return BAD_VERSION
  const found = versions.find((one) => one.version === number)
  return found === undefined
    ? NO_VERSION
    : ok({ subject, version: found.version, id: found.id, schemaType: 'AVRO', schema: schemaText(found) })
}

/** The answer to a path below `/schema-registry`, such as `/subjects/hub.MessageSent/versions`. */
export const registryAnswer = (path: string): RegistryAnswer => {
  const [first, second, third, fourth, ...rest] = path
    .split('?', 1)[0]!
    .split('/')
    .filter((part) => part !== '')
  if (rest.length > 0) return NO_RESOURCE
  if (first === 'schemas' && second === 'ids' && third !== undefined && fourth === undefined)
    return schemaById(third)
  if (first !== 'subjects') return NO_RESOURCE
  if (second === undefined) return ok([...bySubject.keys()])
  if (third !== 'versions') return NO_RESOURCE
  const subject = decodeComponent(second)
  if (subject === null) return NO_SUBJECT
  return fourth === undefined ? subjectVersions(subject) : subjectVersion(subject, fourth)
}

const decodeComponent = (part: string): string | null => {
  try {
    return decodeURIComponent(part)
  } catch {
    return null
  }
}
