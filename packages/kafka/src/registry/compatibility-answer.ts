/**
 * Whether a schema of a client can read records of published versions, as Confluent's registry answers it. Nobody
 * has to sign in for it, so the work for a schema is bounded.
 */
import * as Result from 'effect/Result'
import type avro from 'avsc'
import { parse, readingProblem } from '../schemas/compatibility.ts'
import type { AvroSchema, SchemaVersion } from '../schemas/schemas.ts'

/**
 * Objects and lists. Each object can be a record, for which avsc compiles code. `MessageAccepted`, the largest schema
 * of the hub, has 36. The rest is for versions of clients, which add at most some fields.
 */
const MAX_OBJECTS = 64
/** Schemas of the hub have up to 6. */
const MAX_DEPTH = 32

const MALFORMED = 'The request is not a JSON object with a text "schema".'
const NOT_AVRO = 'The text "schema" is not an Avro schema.'
const TOO_LARGE = `The schema has more than ${MAX_OBJECTS} objects, or more than ${MAX_DEPTH} levels.`

const isBounded = (schema: unknown): boolean => {
  let objects = 0
  const visit = (part: unknown, depth: number): boolean => {
    if (typeof part !== 'object' || part === null) return true
    if (depth > MAX_DEPTH || ++objects > MAX_OBJECTS) return false
    return Object.values(part).every((inner) => visit(inner, depth + 1))
  }
  return visit(schema, 1)
}

/** Reads `{"schema": "…"}`. `schemaType` may be absent: Avro is the default of the interface. */
export const schemaOfRequest = (body: string): Result.Result<avro.Type, string> => {
  const request = Result.try((): unknown => JSON.parse(body))
  if (Result.isFailure(request) || typeof request.success !== 'object' || request.success === null) {
    return Result.fail(MALFORMED)
  }
  const { schema: text, schemaType = 'AVRO' } = request.success as { schema?: unknown; schemaType?: unknown }
  if (typeof text !== 'string') return Result.fail(MALFORMED)
  if (schemaType !== 'AVRO') return Result.fail('The schemas of the hub have the type AVRO.')
  const schema = Result.try((): unknown => JSON.parse(text))
  if (Result.isFailure(schema)) return Result.fail(NOT_AVRO)
  if (!isBounded(schema.success)) return Result.fail(TOO_LARGE)
  return Result.try({ try: () => parse(schema.success as AvroSchema), catch: () => NOT_AVRO })
}

/** Types of published versions, by their ids. A published version never changes. */
const published = new Map<number, avro.Type>()

const typeOf = ({ id, schema }: SchemaVersion): avro.Type => {
  const known = published.get(id)
  if (known !== undefined) return known
  const type = parse(schema)
  published.set(id, type)
  return type
}

/** One message for each version that the schema cannot read. */
export const unreadable = (
  reader: avro.Type,
  versions: ReadonlyArray<SchemaVersion>,
): ReadonlyArray<string> =>
  versions.flatMap((version) => {
    const problem = readingProblem(reader, typeOf(version))
    return problem === null ? [] : [`It cannot read version ${version.version}: ${problem}`]
  })
