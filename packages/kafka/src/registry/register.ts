/**
 * Gives a schema registry of others, compatible with Confluent's, the hub's schemas under the ids that they have here: records carry those ids.
 * What is there already is left as it is, so that it can be done again with every release.
 */
import { Data, Duration, Effect } from 'effect'
import { REGISTRY_CONTENT_TYPE, subjectOf } from './answers.ts'
import { SCHEMAS, type SchemaVersion } from '../schemas/schemas.ts'

/** The registry did not answer, or does not take a schema. `detail` is its own words. */
export class RegistryRefused extends Data.TaggedError('RegistryRefused')<{
  readonly reason: 'unavailable' | 'rejected' | 'other_id'
  readonly detail: string
}> {}

/** What became of a version. `imported`: with its id given; `counted`: the registry's next id was the right one. */
export interface Registered extends Pick<SchemaVersion, 'name' | 'version' | 'id'> {
  readonly subject: string
  readonly how: 'there' | 'imported' | 'counted'
}

interface Answer {
  readonly status: number
  readonly body: unknown
}

/** A registry on Kafka waits for its own topic. */
const WITHIN = Duration.seconds(15)

const idIn = (body: unknown): number | null => {
  const id: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'id') : null
  return typeof id === 'number' ? id : null
}

export interface RegistryAddress {
  readonly url: string
  /** The header `Authorization`, where the registry asks for one. */
  readonly authorization?: string
}

const makeAsk = ({ authorization, url }: RegistryAddress) => {
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
          Effect.fail(new RegistryRefused({ reason: 'unavailable', detail: 'it does not answer' })),
      }),
    )
}

const isFine = ({ status }: Answer): boolean => status >= 200 && status < 300

/**
 * Registers every version under the subject of its record (`hub.MessageSent`: the full name, Confluent's RecordNameStrategy), oldest id first. A registry that
 * knows Confluent's mode IMPORT is given the ids; of another one, each version must get the next id by itself, as in an empty registry. Fails at
 * the first version that would get another id: nothing could be read by it.
 */
export const registerSchemas = Effect.fn('registerSchemas')(function* (
  address: RegistryAddress,
): Effect.fn.Return<ReadonlyArray<Registered>, RegistryRefused> {
  const ask = makeAsk(address)
  const register = Effect.fnUntraced(function* ({ id, name, schema, version }: SchemaVersion) {
    const subject = subjectOf(name)
    const at = `/subjects/${encodeURIComponent(subject)}`
    const found = yield* ask('GET', `${at}/versions/${version}`)
    if (isFine(found)) {
      const is = idIn(found.body)
      if (is === id) return { name, version, id, subject, how: 'there' as const }
      return yield* new RegistryRefused({
        reason: 'other_id',
        detail: `version ${version} of ${subject} is there with id ${is}, and must have ${id}`,
      })
    }
    const text = { schemaType: 'AVRO', schema: JSON.stringify(schema) }
    const mode = `/mode/${encodeURIComponent(subject)}`
    const isImporting = isFine(yield* ask('PUT', `${mode}?force=true`, { mode: 'IMPORT' }))
    const answer = isImporting
      ? yield* Effect.ensuring(
          ask('POST', `${at}/versions`, { ...text, id, version }),
          Effect.ignore(ask('PUT', mode, { mode: 'READWRITE' })),
        )
      : yield* ask('POST', `${at}/versions`, text)
    if (!isFine(answer)) {
      return yield* new RegistryRefused({
        reason: 'rejected',
        detail: `${subject} version ${version}: ${answer.status} ${JSON.stringify(answer.body)}`,
      })
    }
    const given = idIn(answer.body)
    if (given !== id) {
      return yield* new RegistryRefused({
        reason: 'other_id',
        detail:
          `version ${version} of ${subject} got id ${given}, and must have ${id}: the registry counts ids by itself and is not empty. ` +
          `Use one that knows the mode IMPORT, or an empty one`,
      })
    }
    return { name, version, id, subject, how: isImporting ? ('imported' as const) : ('counted' as const) }
  })
  return yield* Effect.forEach(
    SCHEMAS.toSorted((a, b) => a.id - b.id),
    register,
  )
})
