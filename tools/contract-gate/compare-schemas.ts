/** Compares two JSON schemas of OpenAPI documents, of a request or of a response. */
import { isJsonObject, type Json, type JsonObject } from '@hub/contract'
import { compareSunset, compareSunsetRemoval } from './sunset.ts'
import {
  additive,
  breaking,
  canonical,
  type Change,
  compareParts,
  compareUnknownMembers,
  type Context,
  type Direction,
  isBreaking,
  isSame,
  listAt,
  objectAt,
  partsAt,
  referencesIn,
  resolve,
  textAt,
} from './document.ts'

/** Keywords that do not restrict values. */
const ANNOTATIONS = new Set([
  'title',
  'description',
  'examples',
  'example',
  'deprecated',
  '$comment',
  'readOnly',
  'writeOnly',
])

/** Lower bounds (a higher value allows less) and upper bounds (a lower value allows less). */
const LOWER = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'] as const
const UPPER = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'] as const
/** Keywords that allow less than their absence. Two of their values cannot be ordered. */
const FILTERS = [
  'pattern',
  'format',
  'multipleOf',
  'uniqueItems',
  'contentEncoding',
  'contentMediaType',
  'propertyNames',
] as const

const COMPARED: ReadonlySet<string> = new Set([
  ...ANNOTATIONS,
  'type',
  'enum',
  'const',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'anyOf',
  'oneOf',
  'default',
  'discriminator',
  ...LOWER,
  ...UPPER,
  ...FILTERS,
])

/** The fields of a schema. One with the schema `false` may not be present, as if there were none. */
const fieldsOf = (schema: JsonObject): ReadonlyMap<string, Json> =>
  new Map([...partsAt(schema, 'properties')].filter(([, field]) => field !== false))

/** Keywords that `merge` merges, so that both schemas may have them. */
const MERGED = new Set(['properties', 'required', 'allOf'])

/** The fields of two schemas. One that both describe must match both. */
const mergeFields = (one: JsonObject, other: JsonObject): JsonObject => {
  const fields: Record<string, Json> = { ...objectAt(other, 'properties') }
  for (const [name, field] of partsAt(one, 'properties')) {
    const too = fields[name]
    fields[name] = too === undefined || canonical(too) === canonical(field) ? field : { allOf: [field, too] }
  }
  return fields
}

/**
 * A schema of the values that match both. Annotations are those of `one`. What both restrict in different ways
 * stays in an `allOf`, which is not compared in parts: it must not change.
 */
const merge = (one: JsonObject, other: JsonObject): JsonObject => {
  const both = Object.entries(other).filter(
    ([name, value]) =>
      !MERGED.has(name) &&
      !ANNOTATIONS.has(name) &&
      !name.startsWith('x-') &&
      one[name] !== undefined &&
      canonical(one[name]) !== canonical(value),
  )
  const rest = [
    ...listAt(one, 'allOf'),
    ...listAt(other, 'allOf'),
    ...(both.length === 0 ? [] : [Object.fromEntries(both)]),
  ]
  const has = (name: string): boolean => one[name] !== undefined || other[name] !== undefined
  return {
    ...other,
    ...one,
    ...(has('properties') ? { properties: mergeFields(one, other) } : {}),
    ...(has('required') ? { required: [...listAt(other, 'required'), ...listAt(one, 'required')] } : {}),
    ...(rest.length === 0 ? {} : { allOf: rest }),
  }
}

/** Merges the members of an `allOf` into the schema that contains it. */
const flatten = (document: JsonObject, schema: JsonObject): JsonObject => {
  const resolved = resolve(document, schema)
  const { allOf: members, ...rest } = resolved
  if (!Array.isArray(members)) return resolved
  return members
    .filter(isJsonObject)
    .reduce<JsonObject>((merged, member) => merge(merged, flatten(document, member)), rest)
}

/** The keywords of unions. */
const UNIONS = ['anyOf', 'oneOf'] as const

/** Splits `anyOf`, `oneOf` and a list of types into alternatives with at most one type each. */
const alternatives = (document: JsonObject, schema: JsonObject): ReadonlyArray<JsonObject> => {
  const flat = flatten(document, schema)
  for (const keyword of UNIONS) {
    const members = flat[keyword]
    if (!Array.isArray(members)) continue
    const { [keyword]: _, ...rest } = flat
    return members
      .filter(isJsonObject)
      .flatMap((member) => alternatives(document, merge(flatten(document, member), rest)))
  }
  const type = flat['type']
  return Array.isArray(type) ? type.map((one) => ({ ...flat, type: one })) : [flat]
}

/** The value by which a discriminator selects this alternative of its union; null for another schema. */
const tagOf = (schema: JsonObject): string | null => {
  const property = objectAt(schema, 'discriminator')['propertyName']
  if (typeof property !== 'string') return null
  const values = valuesOf(asSchema(objectAt(schema, 'properties')[property]))
  return values?.size === 1 ? ([...values][0] ?? null) : null
}

/**
 * Whether an alternative admits every value of the property by which a discriminator selects another:
 * clients already get values that they do not know.
 */
const admitsTagOf = (document: JsonObject, schema: JsonObject, tagged: JsonObject): boolean => {
  const property = textAt(objectAt(tagged, 'discriminator'), 'propertyName')
  const values = objectAt(schema, 'properties')[property]
  return (
    tagOf(schema) === null &&
    isJsonObject(values) &&
    alternatives(document, values).some((one) => one['type'] === 'string' && valuesOf(one) === null)
  )
}

/** The known values of an open enumeration, of which any other string is valid too. */
const KNOWN_VALUES = 'x-known-values'

/** Merges an enumeration and any string, which together are an open enumeration. */
const withOpenEnumeration = (schemas: ReadonlyArray<JsonObject>): ReadonlyArray<JsonObject> => {
  const known = schemas.find((one) => one['type'] === 'string' && Array.isArray(one['enum']))
  const any = schemas.find((one) => one['type'] === 'string' && valuesOf(one) === null)
  if (known === undefined || any === undefined) return schemas
  return schemas
    .filter((one) => one !== known)
    .map((one) => (one === any ? { ...one, [KNOWN_VALUES]: known['enum'] ?? [] } : one))
}

const typeOf = (schema: JsonObject): string | null => {
  if (typeof schema['type'] === 'string') return schema['type']
  if (schema['properties'] !== undefined || schema['additionalProperties'] !== undefined) return 'object'
  return schema['items'] === undefined ? null : 'array'
}

/** True if every value of type `inner` is also of type `outer`; null means any type. */
const isTypeWithin = (inner: string | null, outer: string | null): boolean =>
  outer === null || inner === outer || (inner === 'integer' && outer === 'number')

/** Whether a value may match two alternatives: they have the same type, and no discriminator selects one. */
const overlap = (schemas: ReadonlyArray<JsonObject>): boolean =>
  schemas.some((one, i) =>
    schemas
      .slice(i + 1)
      .some(
        (other) =>
          (isTypeWithin(typeOf(one), typeOf(other)) || isTypeWithin(typeOf(other), typeOf(one))) &&
          (tagOf(one) === null || tagOf(one) !== tagOf(other)),
      ),
  )

/** A value that matches several alternatives is valid in `anyOf`, and not in `oneOf`. */
const compareUnions = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const unionOf = (document: JsonObject, schema: JsonObject) => {
    const flat = flatten(document, schema)
    return UNIONS.find((keyword) => Array.isArray(flat[keyword]))
  }
  const [was, is] = [unionOf(context.base, base), unionOf(context.next, next)]
  if (was === undefined || is === undefined || was === is) return []
  if (!overlap(alternatives(context.next, next))) return []
  const isNarrower = is === 'oneOf'
  const fine = isNarrower === (direction === 'response')
  return [(fine ? additive : breaking)(isNarrower ? 'union-narrowed' : 'union-widened', where)]
}

/** A named schema occurs at many places, with the same changes. */
export const compareSchemas = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> => {
  if (context.open.size > 0 || base['$ref'] === undefined || next['$ref'] === undefined) {
    return compareAt(context, base, next, direction, where)
  }
  const key = JSON.stringify([base, next, direction, context.hasNewerVersion])
  const known = context.compared.get(key) ?? compareAt(context, base, next, direction, '')
  context.compared.set(key, known)
  return known.map((change) => ({ ...change, where: `${where}${change.where}` }))
}

const compareAt = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> => {
  // A comparison that does not end passes references of both documents, such as `allOf: [{ $ref }]`.
  const refers = referencesIn(base).length > 0 && referencesIn(next).length > 0
  const pair = refers ? `${direction} ${JSON.stringify(base)} ${JSON.stringify(next)}` : ''
  if (refers && (context.open.has(pair) || isSame(context, base, next))) return []
  const inside: Context = refers ? { ...context, open: new Set([...context.open, pair]) } : context

  const before = withOpenEnumeration(alternatives(context.base, base))
  const after = withOpenEnumeration(alternatives(context.next, next))
  const [only, now] = [before[0], after[0]]
  if (before.length === 1 && after.length === 1 && only !== undefined && now !== undefined) {
    return compareAlternative(inside, only, now, direction, where)
  }

  // Each old alternative must still exist, with additive changes only. In a response, clients must
  // also know each new alternative.
  const changes = compareUnions(context, base, next, direction, where)
  const nearest = (candidates: ReadonlyArray<ReadonlyArray<Change>>): ReadonlyArray<Change> =>
    candidates.toSorted(
      (a, b) => a.filter(isBreaking).length - b.filter(isBreaking).length || a.length - b.length,
    )[0] ?? []
  // Where a discriminator was added, alternatives without a tag are compared with those that now have one.
  const isTagNew = before.every((one) => tagOf(one) === null)
  for (const one of before) {
    const tag = tagOf(one)
    if (after.some((other) => isSame(context, one, other))) continue
    const candidates = after
      .filter((other) => typeOf(other) === typeOf(one) || isTypeWithin(typeOf(one), typeOf(other)))
      .filter((other) => tagOf(other) === tag || isTagNew)
      .map((other) => compareAlternative(inside, one, other, direction, where))
    if (candidates.length === 0)
      changes.push(breaking('type-removed', `${where} (${tag ?? typeOf(one) ?? 'any'})`))
    else changes.push(...nearest(candidates))
  }
  for (const other of after) {
    const tag = tagOf(other)
    if (before.some((one) => isSame(context, one, other))) continue
    // Compared above with the alternative of the same tag.
    if (tag !== null && before.some((one) => tagOf(one) === tag)) continue
    if (tag !== null && before.some((one) => admitsTagOf(context.base, one, other))) {
      changes.push(additive('type-added', `${where} (${tag})`))
      continue
    }
    const known = before
      .filter((one) => isTypeWithin(typeOf(other), typeOf(one)))
      .some((one) => !compareAlternative(inside, one, other, direction, where).some(isBreaking))
    const matched = before.some(
      (one) =>
        typeOf(one) === typeOf(other) &&
        !compareAlternative(inside, one, other, direction, where).some(isBreaking),
    )
    if (direction === 'response' && !known)
      changes.push(breaking('type-added', `${where} (${typeOf(other) ?? 'any'})`))
    if (direction === 'request' && !matched)
      changes.push(additive('type-added', `${where} (${typeOf(other) ?? 'any'})`))
  }
  return changes
}

const compareAlternative = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> => {
  const [was, is] = [typeOf(base), typeOf(next)]
  const fits = direction === 'request' ? isTypeWithin(was, is) : isTypeWithin(is, was)
  // Other keywords of two different types cannot be compared.
  if (!fits) return [breaking('type-changed', `${where} (${was ?? 'any'} → ${is ?? 'any'})`)]
  return [
    ...(was === is ? [] : [additive('type-changed', `${where} (${was ?? 'any'} → ${is ?? 'any'})`)]),
    ...compareValues(base, next, direction, where),
    ...compareBounds(base, next, direction, where),
    ...compareProperties(context, base, next, direction, where),
    ...compareOpenness(context, base, next, direction, where),
    ...compareDiscriminators(context, base, next, direction, where),
    ...compareUnknownMembers(base, next, COMPARED, 'keyword-changed', where),
  ]
}

const valuesOf = (schema: JsonObject): ReadonlySet<string> | null => {
  if (Array.isArray(schema['enum'])) return new Set(schema['enum'].map(canonical))
  return schema['const'] === undefined ? null : new Set([canonical(schema['const'])])
}

/** Enumerations may grow in requests and responses, and must never shrink. */
const compareValues = (
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const knownAt = (schema: JsonObject): ReadonlySet<string> | null =>
    Array.isArray(schema[KNOWN_VALUES]) ? new Set(schema[KNOWN_VALUES].map(canonical)) : null
  const [knownBefore, knownAfter] = [knownAt(base), knownAt(next)]
  if (knownBefore !== null && knownAfter !== null) return compareSets(knownBefore, knownAfter, where)
  const [before, after] = [valuesOf(base), valuesOf(next)]
  if (before !== null && knownAfter !== null) {
    const removed = compareSets(before, knownAfter, where).filter(isBreaking)
    return [additive('enumeration-opened', where), ...removed]
  }
  if (before === null && after === null) return []
  if (before === null) {
    return direction === 'request'
      ? [breaking('enumeration-narrowed', where)]
      : [additive('enumeration-added', where)]
  }
  if (after === null) return [additive('enumeration-opened', where)]
  return compareSets(before, after, where)
}

const compareSets = (
  before: ReadonlySet<string>,
  after: ReadonlySet<string>,
  where: string,
): Array<Change> => [
  ...[...before].filter((v) => !after.has(v)).map((v) => breaking('enumeration-narrowed', `${where} (${v})`)),
  ...[...after]
    .filter((v) => !before.has(v))
    .map((v) => additive('enumeration-value-added', `${where} (${v})`)),
]

/** Largest 32-bit integer. */
const MAX_INT32 = 2 ** 31 - 1

/** Whether the format of a number only says how large it may be, which the schema bounds already. */
const statesSize = (schema: JsonObject): boolean => {
  const { format, type } = schema
  if (type === 'number') return format === 'double'
  if (type !== 'integer') return false
  const [least, most] = [numberAt(schema, 'minimum'), numberAt(schema, 'maximum')]
  const isBounded = least !== null && least >= -MAX_INT32 && most !== null && most <= MAX_INT32
  return format === 'int64' || (format === 'int32' && isBounded)
}

const numberAt = (schema: JsonObject, name: string): number | null => {
  const value = schema[name]
  return typeof value === 'number' ? value : null
}

/** A request may later allow more values, a response fewer. */
const compareBounds = (
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const changes: Array<Change> = []
  /** `less`: the change allows fewer values. */
  const add = (name: string, less: boolean) => {
    const fine = direction === 'request' ? !less : less
    changes.push((fine ? additive : breaking)(less ? `${name}-tightened` : `${name}-loosened`, where))
  }
  for (const [names, sign] of [
    [LOWER, 1],
    [UPPER, -1],
  ] as const) {
    for (const name of names) {
      const [before, after] = [numberAt(base, name), numberAt(next, name)]
      if (before === after) continue
      if (before === null) add(name, true)
      else if (after === null) add(name, false)
      else add(name, (after - before) * sign > 0)
    }
  }
  for (const name of FILTERS) {
    const [before, after] = [base[name], next[name]]
    if (canonical(before) === canonical(after)) continue
    if (name === 'format' && before === undefined && statesSize(next)) {
      changes.push(additive('number-format-stated', where))
      continue
    }
    if (before === undefined) add(name, true)
    else if (after === undefined) add(name, false)
    else changes.push(breaking(`${name}-changed`, where))
  }
  if (base['default'] !== undefined && canonical(base['default']) !== canonical(next['default'])) {
    // The meaning of an absent field has changed.
    changes.push(breaking('default-changed', where))
  }
  return changes
}

/** A field that is read-only may no longer be sent in a request, and one that is write-only is in no answer. */
const compareOneWay = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const [keyword, rule] =
    direction === 'request'
      ? (['readOnly', 'field-became-read-only'] as const)
      : (['writeOnly', 'field-became-write-only'] as const)
  const was = resolve(context.base, base)[keyword] === true
  const is = resolve(context.next, next)[keyword] === true
  return is && !was ? [breaking(rule, where)] : []
}

const compareProperties = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> => {
  const [before, after] = [fieldsOf(base), fieldsOf(next)]
  const [needed, needs] = [new Set(listAt(base, 'required')), new Set(listAt(next, 'required'))]
  const isRequest = direction === 'request'
  const requiredness = (name: string, at: string): ReadonlyArray<Change> => {
    if (needed.has(name) === needs.has(name)) return []
    return needed.has(name)
      ? [(isRequest ? additive : breaking)('field-became-optional', at)]
      : [(isRequest ? breaking : additive)('field-became-required', at)]
  }
  const placeOf = (name: string) => ({
    what: 'field' as const,
    where: `${where}.${name}`,
  })
  const added = (name: string): Change =>
    (isRequest || context.readsOlderAnswers) && needs.has(name)
      ? breaking('required-field-added', `${where}.${name}`)
      : additive('field-added', `${where}.${name}`)
  return [
    ...compareParts(before, after, {
      removed: (schema, name) => compareSunsetRemoval(context, schema, placeOf(name)),
      kept: (schema, now, name) => {
        const at = `${where}.${name}`
        return [
          ...requiredness(name, at),
          ...compareOneWay(context, asSchema(schema), asSchema(now), direction, at),
          ...compareSunset(context, schema, now, placeOf(name)),
          ...compareSchemas(context, asSchema(schema), asSchema(now), direction, at),
        ]
      },
      added: (_, name) => added(name),
    }),
    ...[...after].flatMap(([name, schema]) =>
      before.has(name) ? [] : compareSunset(context, undefined, schema, placeOf(name)),
    ),
    // `required` may contain a name that `properties` does not describe.
    ...[...needs].flatMap((name) =>
      isRequest && typeof name === 'string' && !needed.has(name) && !after.has(name) ? [added(name)] : [],
    ),
  ]
}

/** `true` and an absent schema allow any value. */
export const asSchema = (value: Json | undefined): JsonObject => (isJsonObject(value) ? value : {})
const allowsAny = (value: Json | undefined): boolean =>
  value === undefined ||
  value === true ||
  (isJsonObject(value) && Object.keys(value).every((key) => ANNOTATIONS.has(key)))

/** Compares the schemas of members without a name: additional properties and list elements. */
const compareOpenness = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const changes: Array<Change> = []
  for (const name of ['additionalProperties', 'items'] as const) {
    const [before, after] = [base[name], next[name]]
    const at = name === 'items' ? `${where}[]` : `${where}.*`
    if (allowsAny(before) && allowsAny(after)) continue
    if (before === false || after === false) {
      if (before === after) continue
      // Opening an object is allowed. Closing one refuses fields that clients may send today.
      const closed = after === false && direction === 'request'
      changes.push((closed ? breaking : additive)(after === false ? `${name}-closed` : `${name}-opened`, at))
    } else if (allowsAny(before)) {
      changes.push((direction === 'request' ? breaking : additive)(`${name}-restricted`, at))
    } else if (allowsAny(after)) {
      changes.push((direction === 'request' ? additive : breaking)(`${name}-opened`, at))
    } else {
      changes.push(...compareSchemas(context, asSchema(before), asSchema(after), direction, at))
    }
  }
  return changes
}

/**
 * A client selects the alternative of a union by the discriminator: its property must stay, and its values with the
 * schemas that they select.
 */
const compareDiscriminators = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> => {
  const [before, after] = [objectAt(base, 'discriminator'), objectAt(next, 'discriminator')]
  if (before['propertyName'] === undefined) return []
  if (before['propertyName'] !== after['propertyName']) return [breaking('discriminator-changed', where)]
  const values = partsAt(after, 'mapping')
  return [...partsAt(before, 'mapping')].flatMap(([value, was]) => {
    const is = values.get(value)
    const at = `${where} (${value})`
    if (typeof is !== 'string' || typeof was !== 'string') {
      return [breaking('discriminator-value-removed', at)]
    }
    // The name of a component may change.
    return is === was ? [] : compareSchemas(context, { $ref: was }, { $ref: is }, direction, at)
  })
}
