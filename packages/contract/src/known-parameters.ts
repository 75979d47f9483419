/**
 * The names of parameters that the API description defines: for warnings about unknown ones, and
 * for logs, which must not contain names that a client chose. Source: HTTP-20.
 */
import { description } from './describe.ts'
import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { templateWarnings } from './requests/templates.ts'

/** The known fields of an object, and the shape of its inner objects. `null`: any name is known. */
interface Shape {
  readonly fields: ReadonlyMap<string, Shape | null>
}

interface OperationParameters {
  readonly query: ReadonlySet<string>
  readonly body: Shape | null
}

const objectAt = (object: JsonObject, name: string): JsonObject => {
  const value = object[name]
  return isJsonObject(value) ? value : {}
}
const objectsAt = (object: JsonObject, name: string): ReadonlyArray<JsonObject> => {
  const value = object[name]
  return Array.isArray(value) ? (value as ReadonlyArray<Json>).filter(isJsonObject) : []
}

const resolved = (document: JsonObject, schema: JsonObject): JsonObject => {
  const { $ref: target } = schema
  const name = typeof target === 'string' ? target.slice('#/components/schemas/'.length) : null
  return name === null ? schema : objectAt(objectAt(objectAt(document, 'components'), 'schemas'), name)
}

/** The fields of an object, of the elements of a list, or of all alternatives. */
const fieldsOf = (document: JsonObject, given: JsonObject): ReadonlyArray<[string, Shape | null]> => {
  const schema = resolved(document, given)
  return [
    ...Object.entries(objectAt(schema, 'properties')).map(([name, inner]): [string, Shape | null] => [
      name,
      isJsonObject(inner) ? shapeOf(document, inner) : null,
    ]),
    ...(schema['items'] === undefined ? [] : fieldsOf(document, objectAt(schema, 'items'))),
    ...[...objectsAt(schema, 'anyOf'), ...objectsAt(schema, 'oneOf'), ...objectsAt(schema, 'allOf')].flatMap(
      (alternative) => fieldsOf(document, alternative),
    ),
  ]
}
const shapeOf = (document: JsonObject, schema: JsonObject): Shape | null => {
  const fields = new Map(fieldsOf(document, schema))
  return fields.size === 0 ? null : { fields }
}

const parametersOf = (document: JsonObject, operation: JsonObject): OperationParameters => ({
  query: new Set(
    objectsAt(operation, 'parameters').flatMap(({ in: place, name }) =>
      place === 'query' && typeof name === 'string' ? [name] : [],
    ),
  ),
  body: shapeOf(
    document,
    objectAt(objectAt(objectAt(objectAt(operation, 'requestBody'), 'content'), 'application/json'), 'schema'),
  ),
})

const operationsOf = (document: JsonObject): ReadonlyMap<string, OperationParameters> => {
  const operations = new Map<string, OperationParameters>()
  for (const methods of Object.values(objectAt(document, 'paths'))) {
    if (!isJsonObject(methods)) continue
    for (const operation of Object.values(methods)) {
      if (!isJsonObject(operation) || typeof operation['operationId'] !== 'string') continue
      operations.set(operation['operationId'], parametersOf(document, operation))
    }
  }
  return operations
}

/** Adds the names of unknown fields of a value: once for each name, and at most `max`. */
const addUnknown = (found: Set<string>, value: Json | undefined, shape: Shape | null, max: number): void => {
  if (shape === null || found.size >= max) return
  if (Array.isArray(value)) {
    for (const element of value as ReadonlyArray<Json>) addUnknown(found, element, shape, max)
  } else if (isJsonObject(value)) {
    for (const name of Object.keys(value)) {
      if (found.size >= max) return
      const inner = shape.fields.get(name)
      if (inner === undefined) found.add(name)
      else addUnknown(found, value[name], inner, max)
    }
  }
}

/** Most warnings of an answer. */
const MAX_WARNINGS = 5
/** A longer name is cut: it only has to be recognized. */
const MAX_SHOWN_NAME = 64

/** A name as a header value can contain it: printable ASCII without quotes and backslashes. */
const shown = (name: string): string => name.slice(0, MAX_SHOWN_NAME).replaceAll(/[^ !#-[\]-~]/gu, '?')

let operations: ReadonlyMap<string, OperationParameters> | undefined

/** What an operation knows, by its id, such as `messages.send`. */
const knownBy = (operation: string): OperationParameters =>
  (operations ??= operationsOf(description())).get(operation) ?? { query: new Set(), body: null }

/** Warnings about parameters that the operation does not know. */
const unknownParameterWarnings = (
  operation: string,
  query: URLSearchParams,
  body: JsonObject | null,
): ReadonlyArray<string> => {
  const known = knownBy(operation)
  const found = new Set<string>()
  for (const name of query.keys()) {
    if (found.size < MAX_WARNINGS && !known.query.has(name)) found.add(name)
  }
  if (body !== null) addUnknown(found, body, known.body, MAX_WARNINGS)
  return [...found].map((name) => `unknown parameter "${shown(name)}"`)
}

/**
 * What a client with a test key should know about its request: the values of `Hub-Warning`, at most
 * five. They follow from the request alone, so that a replayed answer has them, too. `body`: the
 * parsed body, if there is one.
 */
export const requestWarnings = (
  operation: string,
  query: URLSearchParams,
  body: JsonObject | null,
): ReadonlyArray<string> =>
  [
    ...unknownParameterWarnings(operation, query, body),
    ...(operation === 'templates.create' && body !== null ? templateWarnings(body) : []),
  ].slice(0, MAX_WARNINGS)

/** Objects whose names the client chooses. */
const FREE_FORM = new Set(['variables', 'registration', 'headers'])
/** Parameters that the description does not list, because they are headers or always refused. */
const FURTHER = ['Idempotency-Key', 'send_at', 'page', 'offset', 'ending_before', 'order']

let names: ReadonlySet<string> | undefined

const allNames = (): ReadonlySet<string> => {
  const found = new Set(FURTHER)
  const add = (shape: Shape | null): void => {
    for (const [name, inner] of shape?.fields ?? []) {
      found.add(name)
      add(inner)
    }
  }
  for (const { body, query } of (operations ??= operationsOf(description())).values()) {
    for (const name of query) found.add(name)
    add(body)
  }
  return found
}

/**
 * The part of an error's `param` that logs may contain: up to the first name that is not of the
 * contract. `messages[3].variables.code` becomes `messages[3].variables`.
 */
export const loggableParam = (param: string): string => {
  const known = (names ??= allNames())
  const kept: Array<string> = []
  for (const part of param.split('.')) {
    const name = part.replace(/(?:\[\d+\])+$/u, '')
    if (!known.has(name)) break
    kept.push(part)
    if (FREE_FORM.has(name)) break
  }
  return kept.length === 0 ? 'body' : kept.join('.')
}

/** Reads the names from the description, which is otherwise done at their first use. */
export const prepareKnownParameters = (): void => void (names ??= allNames())
