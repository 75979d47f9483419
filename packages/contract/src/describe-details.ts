/**
 * Details of the API description that the generator does not write: formats of numbers, open
 * enumerations of responses, and examples of parameters. Source: VER-3, VER-4.
 */
import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { AT, BATCH_ID, ENDPOINT_ID, EVENT_ID, MESSAGE_ID, SENDER_ID, TEMPLATE_ID } from './schemas/fields.ts'

/** Rewrites all schemas of a value, bottom up. Examples are values, not schemas. */
export const rewriteSchemas = (value: Json, change: (object: JsonObject) => JsonObject): Json => {
  if (Array.isArray(value)) return (value as ReadonlyArray<Json>).map((one) => rewriteSchemas(one, change))
  if (!isJsonObject(value)) return value
  return change(
    Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [
        name,
        name === 'examples' || name === 'example' || name === 'enum' || name === 'default'
          ? inner
          : rewriteSchemas(inner, change),
      ]),
    ),
  )
}

/** Adds the format of numbers. Counts of a summary may exceed 32 bits; other integers never do. */
export const numberFormats =
  (integers: 'int32' | 'int64') =>
  (schema: JsonObject): JsonObject =>
    schema['type'] === 'integer'
      ? { ...schema, type: 'integer', format: integers }
      : schema['type'] === 'number'
        ? { ...schema, type: 'number', format: 'double' }
        : schema

/** The keywords of a schema that describe it and do not restrict values. */
const ANNOTATIONS = new Set(['title', 'description', 'examples', 'deprecated'])

/** Opens an enumeration: any of the known values, or another string. A single value is a constant. */
const openEnumeration = (schema: JsonObject): JsonObject => {
  const known = schema['enum']
  if (schema['type'] !== 'string' || !Array.isArray(known) || known.length < 2) return schema
  const annotations = Object.entries(schema).filter(([name]) => ANNOTATIONS.has(name))
  return { anyOf: [{ type: 'string', enum: known }, { type: 'string' }], ...Object.fromEntries(annotations) }
}

/** Moves the alternatives of an alternative, such as an opened enumeration that may be `null`. */
const flattenAlternatives = (schema: JsonObject): JsonObject => {
  const members = schema['anyOf']
  if (!Array.isArray(members)) return schema
  return {
    ...schema,
    anyOf: (members as ReadonlyArray<Json>).flatMap((member) =>
      isJsonObject(member) && Array.isArray(member['anyOf']) && Object.keys(member).length === 1
        ? (member['anyOf'] as ReadonlyArray<Json>)
        : [member],
    ),
  }
}

/** Opens the enumerations of a schema of responses: new values may come at any time. */
export const openEnumerations = (schema: JsonObject): JsonObject =>
  flattenAlternatives(openEnumeration(schema))

const REFERENCE = '#/components/schemas/'

/** The names of the schemas that a value refers to, directly or by others. Throws if one of them does not exist. */
export const referredBy = (value: Json, schemas: JsonObject, found: Set<string> = new Set()): Set<string> => {
  rewriteSchemas(value, (object) => {
    const target = object['$ref']
    if (typeof target === 'string' && target.startsWith(REFERENCE)) {
      const name = target.slice(REFERENCE.length)
      const schema = schemas[name]
      if (schema === undefined) throw new Error(`there is no schema ${name}`)
      if (!found.has(name)) {
        found.add(name)
        referredBy(schema, schemas, found)
      }
    }
    return object
  })
  return found
}

/** The schemas that requests contain. Their enumerations stay closed. */
export const schemasOfRequests = (paths: Json, schemas: JsonObject): ReadonlySet<string> => {
  const bodies: Array<Json> = []
  if (isJsonObject(paths)) {
    for (const methods of Object.values(paths)) {
      if (!isJsonObject(methods)) continue
      for (const operation of Object.values(methods)) {
        if (isJsonObject(operation) && operation['requestBody'] !== undefined) {
          bodies.push(operation['requestBody'])
        }
      }
    }
  }
  return referredBy(bodies, schemas)
}

/** Ids by the first part of the operation. */
const IDS: Readonly<Record<string, string>> = {
  messages: MESSAGE_ID,
  batches: BATCH_ID,
  templates: TEMPLATE_ID,
  senders: SENDER_ID,
  webhook_endpoints: ENDPOINT_ID,
  events: EVENT_ID,
}
const DELIVERY_ID = 'whd_06e9c2v5k4r8x1m7n3p0q2s6tw'

const EXAMPLES: Readonly<Record<string, Json>> = {
  'Idempotency-Key': 'order-1001-code',
  delivery: DELIVERY_ID,
  limit: 20,
  batch: BATCH_ID,
  message: MESSAGE_ID,
  client_ref: 'order-1001-code',
  template: 'order_ready',
  created_after: AT,
  created_before: '2026-11-22T00:00:00.000Z',
  event: EVENT_ID,
  from: '2026-11-01',
  to: '2026-11-21',
}

const firstValue = (schema: JsonObject): Json | undefined => {
  if (Array.isArray(schema['enum'])) return schema['enum'][0] as Json
  const inner = schema['items']
  return isJsonObject(inner) ? firstValue(inner) : undefined
}

/** An example of a parameter; `undefined` if none is known, which a test refuses. */
export const exampleOf = (operationId: string, name: string, schema: JsonObject): Json | undefined => {
  const resource = operationId.split('.')[0] ?? ''
  if (name === 'id') return IDS[resource]
  if (name === 'starting_after') {
    return operationId === 'webhook_endpoints.deliveries' ? DELIVERY_ID : IDS[resource]
  }
  const value = EXAMPLES[name] ?? firstValue(schema)
  return schema['type'] === 'array' && value !== undefined ? [value] : value
}
