/**
 * Registers the schemas in a Confluent-compatible schema registry. Their ids must be those of
 * `schemas/ids.json`, because records contain them. It can be repeated.
 */
import { Data, Duration, Effect } from 'effect'
import { REGISTRY_CONTENT_TYPE, subjectOf } from './answers.ts'
import { SCHEMAS, type SchemaVersion } from '../schemas/schemas.ts'

/** The registry does not answer, or rejects a schema. `detail` is the answer of the registry. */
class RegistryRefused extends Data.TaggedError('RegistryRefused')<{
  readonly reason: 'unavailable' | 'rejected' | 'other_id'
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

/**
 * Registers every version, in ascending order of the ids, under the subject of its record
 * (`hub.MessageSent`: RecordNameStrategy). A registry with Confluent's mode IMPORT gets the ids.
 * Another registry must assign the same ids itself, as an empty registry does. Fails at the first
 * version that gets another id, because no consumer could decode its records.
 */
export const registerSchemas = Effect.fn('registerSchemas')(function* (
  address: RegistryAddress,
): Effect.fn.Return<ReadonlyArray<Registered>, RegistryRefused> {
  const request = requestOf(address)
  const register = Effect.fnUntraced(function* ({ id, name, schema, version }: SchemaVersion) {
    const subject = subjectOf(name)
    const at = `/subjects/${encodeURIComponent(subject)}`
    const found = yield* request('GET', `${at}/versions/${version}`)
    if (isSuccess(found)) {
      const existing = idIn(found.body)
      if (existing === id) return { name, version, id, subject, how: 'there' as const }
      return yield* new RegistryRefused({
        reason: 'other_id',
        detail: `version ${version} of ${subject} exists with id ${existing}, but must have id ${id}`,
      })
    }
    const text = { schemaType: 'AVRO', schema: JSON.stringify(schema) }
    const mode = `/mode/${encodeURIComponent(subject)}`
    const isImporting = isSuccess(yield* request('PUT', `${mode}?force=true`, { mode: 'IMPORT' }))
    const answer = isImporting
      ? yield* Effect.ensuring(
          request('POST', `${at}/versions`, { ...text, id, version }),
          Effect.ignore(request('PUT', mode, { mode: 'READWRITE' })),
        )
      : yield* request('POST', `${at}/versions`, text)
    if (!isSuccess(answer)) {
      return yield* new RegistryRefused({
        reason: 'rejected',
        detail: `${subject} version ${version}: ${answer.status} ${JSON.stringify(answer.body)}`,
      })
    }
    const assigned = idIn(answer.body)
    if (assigned !== id) {
      return yield* new RegistryRefused({
        reason: 'other_id',
        detail:
          `version ${version} of ${subject} got id ${assigned}, but must have id ${id}: the registry assigns ids itself and is not empty. ` +
          `Use a registry with the mode IMPORT, or an empty one`,
      })
    }
    return { name, version, id, subject, how: isImporting ? ('imported' as const) : ('counted' as const) }
  })
  return yield* Effect.forEach(
    SCHEMAS.toSorted((a, b) => a.id - b.id),
    register,
  )
})
