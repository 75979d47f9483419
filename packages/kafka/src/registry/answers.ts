/**
 * Read-only answers of a Confluent-compatible schema registry. command-api serves them below
 * `/schema-registry` where no registry is configured, so that a standard Avro consumer can read the
 * topics of a local hub. The registry is in the mode `READONLY` and refuses every change as
 * Confluent's registry does in this mode.
 *
 * Subjects follow RecordNameStrategy: the full name of the record (`hub.MessageSent`). A topic has
 * several record types, and both lanes have the same type, so the name of a topic identifies no
 * schema. The topic of the outcomes is for tools that expect one type in a topic, and follows
 * TopicNameStrategy.
 */
import * as Result from 'effect/Result'
import { schemaOfRequest, unreadable } from './compatibility-answer.ts'
import { type RecordName, SCHEMAS, type SchemaVersion } from '../schemas/schemas.ts'
import { topicNames } from '../topics/catalogue.ts'

/** The body is JSON of type `REGISTRY_CONTENT_TYPE`. */
interface RegistryAnswer {
  readonly status: 200 | 404 | 422
  readonly body: unknown
}

export const REGISTRY_CONTENT_TYPE = 'application/vnd.schemaregistry.v1+json'

/** The gate of the schemas checks this level for every subject (`compatibility.ts`). */
const COMPATIBILITY = { compatibilityLevel: 'BACKWARD_TRANSITIVE' }
const MODE = { mode: 'READONLY' }
const SCHEMA_TYPES = ['AVRO']
/** Only the default context. */
const CONTEXTS = ['.']

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
const badSchema = (message: string) => error(422, 42201, message)
const READ_ONLY = error(422, 42205, 'The schemas of the hub are read-only.')

const OUTCOME: RecordName = 'MessageOutcome'

/** The subject of a record. It has no deployment prefix, which production does not have either. */
export const subjectOf = (name: string): string =>
  name === OUTCOME ? `${topicNames().outcomes}-value` : `hub.${name}`

const schemaText = (version: SchemaVersion) => JSON.stringify(version.schema)
const numberIn = (text: string) => (/^[0-9]{1,10}$/.test(text) ? Number(text) : null)
const bySubject = Map.groupBy(SCHEMAS, ({ name }) => subjectOf(name))
const byId = new Map(SCHEMAS.map((version) => [version.id, version]))

/** `GET /schemas/ids/{id}`, and below it `/versions` and `/subjects`: each id belongs to one version. */
const schemaById = (id: string, part: string | undefined): RegistryAnswer => {
  const found = byId.get(numberIn(id) ?? -1)
  if (found === undefined) return NO_SCHEMA
  const subject = subjectOf(found.name)
  switch (part) {
    case undefined:
      return ok({ schema: schemaText(found) })
    case 'versions':
      return ok([{ subject, version: found.version }])
    case 'subjects':
      return ok([subject])
    default:
      return NO_RESOURCE
  }
}

/** `GET /subjects/{subject}/versions` */
const subjectVersions = (subject: string): RegistryAnswer => {
  const versions = bySubject.get(subject)
  return versions === undefined ? NO_SUBJECT : ok(versions.map(({ version }) => version))
}

/** A number or `latest`. */
const versionOf = (subject: string, version: string): Result.Result<SchemaVersion, RegistryAnswer> => {
  const versions = bySubject.get(subject)
  if (versions === undefined) return Result.fail(NO_SUBJECT)
  const number = version === 'latest' ? versions.length : numberIn(version)
  if (number === null || number < 1 || number > 2147483647) return Result.fail(BAD_VERSION)
  const found = versions.find((one) => one.version === number)
  return found === undefined ? Result.fail(NO_VERSION) : Result.succeed(found)
}

/** `GET /subjects/{subject}/versions/{version}` */
const subjectVersion = (subject: string, version: string): RegistryAnswer =>
  Result.match(versionOf(subject, version), {
    onFailure: (answer) => answer,
    onSuccess: (found) =>
      ok({ subject, version: found.version, id: found.id, schemaType: 'AVRO', schema: schemaText(found) }),
  })

/**
 * `POST /compatibility/subjects/{subject}/versions/{version}`, and without a version for all of them: whether the
 * schema of the request can read their records. A subject without versions is compatible with everything, as in
 * Confluent's registry.
 */
const compatibility = (
  subject: string,
  version: string | undefined,
  query: URLSearchParams,
  body: string,
): RegistryAnswer => {
  const wanted: Result.Result<ReadonlyArray<SchemaVersion>, RegistryAnswer> = version === undefined
    ? Result.succeed(bySubject.get(subject) ?? [])
    : Result.map(versionOf(subject, version), (found) => [found])
  if (Result.isFailure(wanted)) return wanted.failure
  const reader = schemaOfRequest(body)
  if (Result.isFailure(reader)) return badSchema(reader.failure)
  const messages = unreadable(reader.success, wanted.success)
  return ok({
    is_compatible: messages.length === 0,
    ...(query.get('verbose') === 'true' ? { messages } : {}),
  })
}

/** A subject without the context in which a registry has it: `:.hub:hub.MessageSent`. */
export const withoutContext = (subject: string): string => subject.replace(/^:[^:]*:/u, '')

/**
 * The subject prefix without its context. `null`: a context that does not exist. `:*:` means all
 * contexts, `:.:` the default one.
 */
const withoutOwnContext = (prefix: string): string | null => {
  const context = /^:([^:]*):/u.exec(prefix)
  if (context === null) return prefix
  return ['*', '.', ''].includes(context[1]!) ? withoutContext(prefix) : null
}

/** `GET /subjects`, with the query parameter `subjectPrefix`. */
const subjects = (query: URLSearchParams): RegistryAnswer => {
  const prefix = withoutOwnContext(query.get('subjectPrefix') ?? '')
  return ok(prefix === null ? [] : [...bySubject.keys()].filter((subject) => subject.startsWith(prefix)))
}

/**
 * `GET /config`, `/mode`, and the same of a subject. Every known subject has the global value as its
 * own. `defaultToGlobal=true` gives it to other subjects too.
 */
const globalOrOf =
  (body: unknown, unknownSubject: (subject: string) => RegistryAnswer) =>
  (subject: string | null, query: URLSearchParams): RegistryAnswer =>
    subject === null || bySubject.has(subject) || query.get('defaultToGlobal') === 'true'
      ? ok(body)
      : unknownSubject(subject)

const config = globalOrOf(COMPATIBILITY, (subject) =>
  error(404, 40408, `Subject '${subject}' does not have subject-level compatibility configured`),
)
const mode = globalOrOf(MODE, (subject) =>
  error(404, 40409, `Subject '${subject}' does not have subject-level mode configured`),
)

const decodeComponent = (part: string): string | null => {
  try {
    return decodeURIComponent(part)
  } catch {
    return null
  }
}

interface RegistryRequest {
  readonly method: string
  /** The path below `/schema-registry`, such as `/subjects/hub.MessageSent/versions`. */
  readonly path: string
  /** The text behind `?`. */
  readonly query?: string
  readonly body?: string
}

/** Whether the answer depends on the body: only checks of compatibility read one. */
export const readsBody = ({ method, path }: Pick<RegistryRequest, 'method' | 'path'>): boolean =>
  method === 'POST' && path.startsWith('/compatibility/')

/** The answer to a request for a path below `/schema-registry`. */
export const registryAnswer = (request: RegistryRequest): RegistryAnswer => {
  const { body = '', method, path, query: text = '' } = request
  const query = new URLSearchParams(text)
  const [first, second, third, fourth, fifth, ...rest] = path.split('/').filter((part) => part !== '')
  if (readsBody(request)) {
    const subject = third === undefined ? null : decodeComponent(third)
    if (second !== 'subjects' || fourth !== 'versions' || rest.length > 0) return NO_RESOURCE
    return subject === null ? NO_SUBJECT : compatibility(subject, fifth, query, body)
  }
  if (method !== 'GET' && method !== 'HEAD') return READ_ONLY
  if (fifth !== undefined) return NO_RESOURCE
  const subject = second === undefined ? null : decodeComponent(second)
  switch (first) {
    case 'schemas':
      if (second === 'ids' && third !== undefined) return schemaById(third, fourth)
      return second === 'types' && third === undefined ? ok(SCHEMA_TYPES) : NO_RESOURCE
    case 'contexts':
      return second === undefined ? ok(CONTEXTS) : NO_RESOURCE
    case 'config':
    case 'mode':
      if (third !== undefined) return NO_RESOURCE
      if (second !== undefined && subject === null) return NO_SUBJECT
      return (first === 'config' ? config : mode)(subject, query)
    case 'subjects':
      if (second === undefined) return subjects(query)
      if (third !== 'versions') return NO_RESOURCE
      if (subject === null) return NO_SUBJECT
      return fourth === undefined ? subjectVersions(subject) : subjectVersion(subject, fourth)
    default:
      return NO_RESOURCE
  }
}
