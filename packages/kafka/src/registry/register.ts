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
}> {
  override readonly message = `${this.reason}: ${this.detail}`
}

/** `imported`: the request set the id. `counted`: the next id of the registry was correct. */
interface Registered extends Pick<SchemaVersion, 'name' | 'version' | 'id'> {
  readonly subject: string
  readonly how: 'there' | 'imported' | 'counted'
}

interface Answer {
  /** What was asked: `GET /subjects`. */
  readonly request: string
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

const refused = (reason: RegistryRefused['reason'], detail: string) =>
  Effect.fail(new RegistryRefused({ reason, detail }))

const readAnswer = (request: string, status: number, text: string): Effect.Effect<Answer, RegistryRefused> =>
  Result.match(
    Result.try((): unknown => (text === '' ? null : JSON.parse(text))),
    {
      onSuccess: (body) => Effect.succeed({ request, status, body }),
      // For example the page of a proxy.
      onFailure: () => refused('unavailable', `${request}: ${status}, and the answer is not JSON`),
    },
  )

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
        return [`${method} ${path}`, response.status, await response.text()] as const
      },
      catch: (error) => new RegistryRefused({ reason: 'unavailable', detail: String(error) }),
    }).pipe(
      Effect.flatMap(([asked, status, text]) => readAnswer(asked, status, text)),
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

/** Says nothing about what the registry has. */
const failed = ({ body, request, status }: Answer) =>
  refused('unavailable', `${request}: ${status} ${JSON.stringify(body)}`)

/** Reads something from the registry. `null`: the registry does not have it. */
const find = (
  request: ReturnType<typeof requestOf>,
  path: string,
): Effect.Effect<Answer | null, RegistryRefused> =>
  Effect.flatMap(request('GET', path), (answer) => {
    if (isSuccess(answer)) return Effect.succeed(answer)
    return answer.status === 404 ? Effect.succeed(null) : failed(answer)
  })

/** Whether the answer contains this schema. */
const hasSchema = ({ body }: Answer, schema: AvroSchema): boolean => {
  const text: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'schema') : null
  const same = Result.try(() => isSameSchema(JSON.parse(String(text)) as AvroSchema, schema))
  return Result.isSuccess(same) && same.success
}

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
      const found = yield* find(request, versionPath(wanted))
      if (found === null) return true
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
      const found = yield* find(request, `/schemas/ids/${wanted.id}`)
      if (found === null || hasSchema(found, wanted.schema)) return
      return yield* refused(
        'other_schema',
        `The registry has another schema with id ${wanted.id}, which ${labelOf(wanted)} must have, so nothing was registered. ${USE_CONTEXT}.`,
      )
    }),
  )
  return missing
})

/** A subject of others, which the registry has; `null`: there is none. */
const foreignSubject = Effect.fnUntraced(function* (
  request: ReturnType<typeof requestOf>,
): Effect.fn.Return<string | null, RegistryRefused> {
  const found = yield* find(request, '/subjects')
  // A registry without subjects answers with an empty list.
  if (found === null || !Array.isArray(found.body)) {
    return yield* refused(
      'unavailable',
      'GET /subjects: the answer is not a list. Is it the URL of a registry?',
    )
  }
  return found.body.map(String).find((subject) => !OWN_SUBJECTS.has(withoutContext(subject))) ?? null
})

/**
 * What registries answer that do not have the mode IMPORT, or whose modes cannot be changed: there is no such path,
 * method or operation. Another answer would say nothing about the mode.
 */
const NO_IMPORT: ReadonlySet<number> = new Set([404, 405, 422, 501])

/** Whether the subject takes chosen ids now. Only a registry with Confluent's modes has this. */
const beginImport = (request: ReturnType<typeof requestOf>, mode: string) =>
  Effect.flatMap(request('PUT', `${mode}?force=true`, { mode: 'IMPORT' }), (answer) =>
    isSuccess(answer) || NO_IMPORT.has(answer.status) ? Effect.succeed(isSuccess(answer)) : failed(answer),
  )

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
  // Subjects of others only matter if something is registered.
  const foreign = missing.size === 0 ? null : yield* foreignSubject(request)
  const register = Effect.fnUntraced(function* (wanted: SchemaVersion) {
    const { id, name, schema, version } = wanted
    const subject = subjectOf(name)
    if (!missing.has(wanted)) return { name, version, id, subject, how: 'there' as const }
    const at = `/subjects/${encodeURIComponent(subject)}/versions`
    const mode = `/mode/${encodeURIComponent(subject)}`
    const text = { schemaType: 'AVRO', schema: JSON.stringify(schema) }
    const isImporting = yield* beginImport(request, mode)
    if (!isImporting && foreign !== null) {
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
