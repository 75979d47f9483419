/**
 * Corrects what Effect's generator of API descriptions writes: objects are open, integers have no bounds
 * that nobody promised, and a named schema exists once. Both APIs of the hub use it.
 */
import { isJsonObject, type Json, type JsonObject } from './json.ts'

/** Rewrites all objects of a value, bottom up. */
export const rewrite = (value: Json, change: (object: JsonObject) => JsonObject): Json => {
  if (Array.isArray(value)) return value.map((element) => rewrite(element, change))
  if (!isJsonObject(value)) return value
  return change(
    Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, rewrite(inner, change)])),
  )
}

/** Removes `additionalProperties: false` (VER-4). */
const openObjects = (object: JsonObject): JsonObject => {
  if (object['additionalProperties'] !== false) return object
  const { additionalProperties: _, ...open } = object
  return open
}

/** Removes the generator's bounds of safe integers, which the contract does not promise. */
const unboundIntegers = (object: JsonObject): JsonObject => {
  const { minimum, maximum, ...rest } = object
  return {
    ...rest,
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? undefined : { minimum }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? undefined : { maximum }),
  }
}

/** Merges an `allOf` with one member into its schema. */
const foldAllOf = (object: JsonObject): JsonObject => {
  const members = object['allOf']
  if (!Array.isArray(members) || members.length !== 1 || !isJsonObject(members[0])) return object
  const { allOf: _, ...rest } = object
  return { ...members[0], ...rest }
}

/**
 * The generator copies a named schema (`Money_1`) at each place with another description. This
 * replaces the copy by a reference with a description, which OpenAPI 3.1 allows.
 */
const foldCopies = (document: JsonObject, schemas: JsonObject): { document: Json; schemas: JsonObject } => {
  const bare = (schema: Json | undefined): string => {
    if (!isJsonObject(schema)) return ''
    const { description: _, ...rest } = schema
    return JSON.stringify(rest)
  }
  const copies = new Map<string, JsonObject>()
  for (const [name, schema] of Object.entries(schemas)) {
    const original = /^(.+)_[0-9]+$/u.exec(name)?.[1]
    if (original === undefined || bare(schema) !== bare(schemas[original])) continue
    const description = isJsonObject(schema) ? schema['description'] : undefined
    copies.set(`#/components/schemas/${name}`, {
      $ref: `#/components/schemas/${original}`,
      ...(description === undefined ? undefined : { description }),
    })
  }
  const replace = (object: JsonObject): JsonObject => {
    const { $ref: target, ...beside } = object
    const found = typeof target === 'string' ? copies.get(target) : undefined
    return found === undefined ? object : { ...found, ...beside }
  }
  const kept = Object.entries(schemas).filter(([name]) => !copies.has(`#/components/schemas/${name}`))
  return {
    document: rewrite(document, replace),
    schemas: rewrite(
      Object.fromEntries(kept.toSorted(([a], [b]) => (a < b ? -1 : 1))),
      replace,
    ) as JsonObject,
  }
}

/** The corrected paths and named schemas of a generated description. */
export const cleanDescription = (
  paths: JsonObject,
  schemas: JsonObject,
): { readonly document: Json; readonly schemas: JsonObject } => {
  const clean = (value: JsonObject): JsonObject =>
    [openObjects, foldAllOf, unboundIntegers].reduce<Json>(rewrite, value) as JsonObject
  return foldCopies(clean(paths), clean(schemas))
}
