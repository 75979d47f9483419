/**
 * Registers the schemas in a Confluent-compatible schema registry. Their ids must be those of
 * `schemas/ids.json`, because records contain them. It first checks that nothing in the registry is in the way,
 * and registers nothing otherwise. It can be repeated.
 */
import { Data, Duration, Effect, Result } from 'effect'
import { REGISTRY_CONTENT_TYPE, subjectOf, withoutContext } from './answers.ts'
import { isSameSchema } from '../schemas/compatibility.ts'
import { type AvroSchema, SCHEMAS, type SchemaVersion } from '../schemas/schemas.ts'

/**
 * The registry does not answer, rejects a schema, or contains something that is in the way. `detail` is a sentence,
 * or the answer of the registry.
 */
class RegistryRefused extends Data.TaggedError('RegistryRefused')<{
  readonly reason: 'unavailable' | 'rejected' | 'other_id' | 'other_schema' | 'not_empty'
  readonly detail: string
}> {}

/** `imported`: the request set the id. `counted`: the next id of the registry was correct. */
interface Registered extends Pick<SchemaVersion, 'name' | 'version' | 'id'> {
  readonly subject: string
  readonly how: 'there' | 'imported' | 'counted'
}

interface Answer {
  readonly status: number
  readonly body: unknown
}

/** A registry that stores schemas in Kafka waits for its topic. */
const WITHIN = Duration.seconds(15)

const idIn = (body: unknown): number | null => {
  const id: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'id') : null
  return typeof id === 'number' ? id : null
}

interface RegistryAddress {
  readonly url: string
  /** The header `Authorization`, if the registry requires it. */
  readonly authorization?: string
}

const requestOf = ({ authorization, url }: RegistryAddress) => {
  const base = url.replace(/\/+$/u, '')
  return (
    method: 'GET' | 'POST' | 'PUT',
    path: string,
    body?: unknown,
  ): Effect.Effect<Answer, RegistryRefused> =>
    Effect.tryPromise({
      try: async (signal) => {
        const response = await fetch(base + path, {
          method,
          signal,
          headers: {
            'content-type': REGISTRY_CONTENT_TYPE,
            accept: `${REGISTRY_CONTENT_TYPE}, application/json`,
            ...(authorization === undefined ? {} : { authorization }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        const text = await response.text()
        return { status: response.status, body: text === '' ? null : (JSON.parse(text) as unknown) }
      },
      catch: (error) => new RegistryRefused({ reason: 'unavailable', detail: String(error) }),
    }).pipe(
      Effect.timeoutOrElse({
        duration: WITHIN,
        orElse: () =>
          Effect.fail(
            new RegistryRefused({ reason: 'unavailable', detail: 'The registry does not answer.' }),
          ),
      }),
    )
}

const isSuccess = ({ status }: Answer): boolean => status >= 200 && status < 300

const refused = (reason: RegistryRefused['reason'], detail: string) =>
  Effect.fail(new RegistryRefused({ reason, detail }))

/** Whether the answer contains this schema. */
const hasSchema = ({ body }: Answer, schema: AvroSchema): boolean => {
  const text: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'schema') : null
  const same = Result.try(() => isSameSchema(JSON.parse(String(text)) as AvroSchema, schema))
  return Result.isSuccess(same) && same.success
}

const listIn = ({ body }: Answer): ReadonlyArray<unknown> => (Array.isArray(body) ? body : [])

/** How to avoid the schemas of others. */
const USE_CONTEXT =
  'Use a context of its own for the hub (add /contexts/.hub to the URL of a Confluent registry), or another registry'

const versionPath = ({ name, version }: SchemaVersion): string =>
  `/subjects/${encodeURIComponent(subjectOf(name))}/versions/${version}`

const labelOf = ({ name, version }: SchemaVersion): string => `version ${version} of ${subjectOf(name)}`

const OWN_SUBJECTS = new Set(SCHEMAS.map(({ name }) => subjectOf(name)))

/** The versions that the registry does not have. Fails if something else is in their place, or has their ids. */
const missingVersions = Effect.fnUntraced(function* (
  request: ReturnType<typeof requestOf>,
): Effect.fn.Return<ReadonlyArray<SchemaVersion>, RegistryRefused> {
  const missing = yield* Effect.filter(
    SCHEMAS,
    Effect.fnUntraced(function* (wanted) {
      const found = yield* request('GET', versionPath(wanted))
      if (!isSuccess(found)) return true
      if (!hasSchema(found, wanted.schema)) {
        return yield* refused(
          'other_schema',
          `The registry has another schema as ${labelOf(wanted)}, so nothing was registered. ${USE_CONTEXT}.`,
        )
      }
      const existing = idIn(found.body)
      if (existing === wanted.id) return false
      return yield* refused(
        'other_id',
        `${labelOf(wanted)} exists with id ${existing}, but must have id ${wanted.id}`,
      )
    }),
  )
  yield* Effect.forEach(
    missing,
    Effect.fnUntraced(function* (wanted) {
      const found = yield* request('GET', `/schemas/ids/${wanted.id}`)
      if (!isSuccess(found) || hasSchema(found, wanted.schema)) return
      return yield* refused(
        'other_schema',
        `The registry has another schema with id ${wanted.id}, which ${labelOf(wanted)} must have, so nothing was registered. ${USE_CONTEXT}.`,
      )
    }),
  )
  return missing
})

/** Whether the subject takes chosen ids now. Only a registry with Confluent's modes has this. */
const beginImport = (request: ReturnType<typeof requestOf>, mode: string) =>
  Effect.map(request('PUT', `${mode}?force=true`, { mode: 'IMPORT' }), isSuccess)

/**
 * Registers every version, in ascending order of the ids, under the subject of its record
 * (`hub.MessageSent`: RecordNameStrategy). A registry with Confluent's mode IMPORT gets the ids.
 * Another registry must assign the same ids itself, so it may only contain schemas of the hub.
 */
export const registerSchemas = Effect.fn('registerSchemas')(function* (
  address: RegistryAddress,
): Effect.fn.Return<ReadonlyArray<Registered>, RegistryRefused> {
  const request = requestOf(address)
  const missing = new Set(yield* missingVersions(request))
  const subjects = listIn(yield* request('GET', '/subjects')).map(String)
  const foreign = subjects.find((subject) => !OWN_SUBJECTS.has(withoutContext(subject)))
  const register = Effect.fnUntraced(function* (wanted: SchemaVersion) {
    const { id, name, schema, version } = wanted
    const subject = subjectOf(name)
    if (!missing.has(wanted)) return { name, version, id, subject, how: 'there' as const }
    const at = `/subjects/${encodeURIComponent(subject)}/versions`
    const mode = `/mode/${encodeURIComponent(subject)}`
    const text = { schemaType: 'AVRO', schema: JSON.stringify(schema) }
    const isImporting = yield* beginImport(request, mode)
    if (!isImporting && foreign !== undefined) {
      return yield* refused(
        'not_empty',
        `The registry assigns ids itself and has schemas of others, such as ${foreign}, so nothing was registered. Use a registry that only has the schemas of the hub.`,
      )
    }
    const answer = isImporting
      ? yield* Effect.ensuring(
          request('POST', at, { ...text, id, version }),
          Effect.ignore(request('PUT', mode, { mode: 'READWRITE' })),
        )
      : yield* request('POST', at, text)
    if (!isSuccess(answer)) {
      return yield* refused(
        'rejected',
        `${subject} version ${version}: ${answer.status} ${JSON.stringify(answer.body)}`,
      )
    }
    const assigned = idIn(answer.body)
    if (assigned !== id) {
      return yield* refused(
        'other_id',
        `version ${version} of ${subject} got id ${assigned}, but must have id ${id}: the registry assigns ids itself, and has assigned some before. ` +
          `Use a registry with the mode IMPORT, or an empty one`,
      )
    }
    return { name, version, id, subject, how: isImporting ? ('imported' as const) : ('counted' as const) }
  })
  return yield* Effect.forEach(
    SCHEMAS.toSorted((a, b) => a.id - b.id),
    register,
  )
})
