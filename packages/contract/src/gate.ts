/**
 * The gate: compares two descriptions of the API by the versioning rules of the specification. Pure.
 *
 * Additive, and so allowed at any time: a new field of an answer, a new value of an enumeration, a new endpoint,
 * a new optional parameter or field of a request, a wider request. Whatever else changes what may be sent or
 * received is breaking: it needs a new path version. The rule is built that way round so that a kind of change nobody
 * thought of is stopped. Texts, examples and names of components say nothing to a program and are not compared.
 *
 * Source: specification, Versioning, 3 to 6.
 */
import type { Json, JsonObject } from './validate.ts'

export interface Change {
  readonly kind: 'breaking' | 'additive'
  /** What sort of change, such as `field-removed`. */
  readonly rule: string
  /** Where, such as `POST /v1/messages → 202 application/json.price`. */
  readonly where: string
}

/** A deprecated operation keeps working for so many days from its announcement. Specification, Versioning, 5. */
export const DEPRECATION_DAYS = 90

/** The day of the announcement (`2026-11-21`), beside `deprecated: true`. */
export const DEPRECATED_SINCE = 'x-deprecated-since'

/** Requests must go on being understood; answers must go on being what a client knows. */
type Direction = 'request' | 'response'

interface Context {
  readonly base: JsonObject
  readonly next: JsonObject
  /** Pairs of references under comparison, so that recursive schemas end. */
  readonly open: ReadonlySet<string>
  /** References to what is the same in both, with all that it refers to. */
  readonly unchanged: ReadonlySet<string>
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const objectAt = (object: JsonObject | undefined, name: string): JsonObject => {
  const value = object !== undefined && Object.hasOwn(object, name) ? object[name] : undefined
  return isObject(value) ? value : {}
}

const listAt = (object: JsonObject, name: string): ReadonlyArray<Json> => {
  const value = object[name]
  return Array.isArray(value) ? value : []
}

const textAt = (object: JsonObject, name: string): string => {
  const value = object[name]
  return typeof value === 'string' ? value : ''
}

/** As text, names in order, so that equal values are equal texts. */
const canonical = (value: Json | undefined): string =>
  JSON.stringify(value, (_, inner: Json) =>
    isObject(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  ) ?? 'undefined'

const breaking = (rule: string, where: string): Change => ({ kind: 'breaking', rule, where })
const additive = (rule: string, where: string): Change => ({ kind: 'additive', rule, where })
const hasBreaking = (changes: ReadonlyArray<Change>): boolean =>
  changes.some((change) => change.kind === 'breaking')

/** What a local `$ref` names, keywords beside it on top; one that names nothing is an empty schema. */
const resolve = (document: JsonObject, value: JsonObject): JsonObject => {
  let at = value
  // A chain of references is as long as there are components, at most.
  for (let hops = 0; hops < 100; hops++) {
    const target = at['$ref']
    if (typeof target !== 'string') return at
    let found: Json | undefined = document
    for (const step of target.replace(/^#\//u, '').split('/')) {
      const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
      found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined
    }
    const { $ref: _, ...beside } = at
    const named: JsonObject = isObject(found) ? found : {}
    at = { ...named, ...beside }
  }
  return at
}

const referencesIn = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/"\$ref":"([^"]*)"/gu)].map((match) => match[1] ?? '')

/**
 * Most of a description is the same from one to the next, and need not be compared word by word. What is not
 * in here may still be the same: it is compared.
 */
const unchangedIn = (base: JsonObject, next: JsonObject): ReadonlySet<string> => {
  const unchanged = new Map<string, ReadonlyArray<string>>()
  const [before, after] = [objectAt(base, 'components'), objectAt(next, 'components')]
  for (const kind of Object.keys(before)) {
    const now = objectAt(after, kind)
    for (const [name, component] of Object.entries(objectAt(before, kind))) {
      const text = JSON.stringify(component)
      if (Object.hasOwn(now, name) && text === JSON.stringify(now[name])) {
        unchanged.set(`#/components/${kind}/${name}`, referencesIn(text))
      }
    }
  }
  for (let settled = false; !settled;) {
    settled = true
    for (const [reference, within] of unchanged) {
      if (within.every((inner) => unchanged.has(inner))) continue
      unchanged.delete(reference)
      settled = false
    }
  }
  return new Set(unchanged.keys())
}

const isSame = (context: Context, base: JsonObject, next: JsonObject): boolean => {
  const text = JSON.stringify(base)
  return (
    text === JSON.stringify(next) && referencesIn(text).every((reference) => context.unchanged.has(reference))
  )
}

// ---------------------------------------------------------------------------------------------------------
// Schemas
// ---------------------------------------------------------------------------------------------------------

/** Say nothing of what is allowed. */
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

/** Bounds from below (a higher one allows less) and from above. */
const LOWER = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'] as const
const UPPER = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'] as const
/** Each allows less than its absence, and no two values of them can be ordered. */
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
  ...LOWER,
  ...UPPER,
  ...FILTERS,
])

/** Puts the members of an `allOf` into the schema around it. */
const flatten = (document: JsonObject, schema: JsonObject): JsonObject => {
  const resolved = resolve(document, schema)
  const members = resolved['allOf']
  if (!Array.isArray(members)) return resolved
  const { allOf: _, ...rest } = resolved
  let merged: JsonObject = rest
  for (const member of members) {
    if (!isObject(member)) continue
    const one = flatten(document, member)
    merged = {
      ...one,
      ...merged,
      ...(one['properties'] === undefined && merged['properties'] === undefined
        ? undefined
        : { properties: { ...objectAt(one, 'properties'), ...objectAt(merged, 'properties') } }),
      ...(one['required'] === undefined && merged['required'] === undefined
        ? undefined
        : { required: [...listAt(one, 'required'), ...listAt(merged, 'required')] }),
    }
  }
  return merged
}

/** The alternatives of a schema, each with one type at most: `anyOf`, `oneOf`, and a list of types, taken apart. */
const alternatives = (document: JsonObject, schema: JsonObject): ReadonlyArray<JsonObject> => {
  const flat = flatten(document, schema)
  for (const keyword of ['anyOf', 'oneOf'] as const) {
    const members = flat[keyword]
    if (!Array.isArray(members)) continue
    const { [keyword]: _, ...rest } = flat
    return members
      .filter(isObject)
      .flatMap((member) => alternatives(document, { ...rest, ...flatten(document, member) }))
  }
  const type = flat['type']
  return Array.isArray(type) ? type.map((one) => ({ ...flat, type: one })) : [flat]
}

const typeOf = (schema: JsonObject): string | null => {
  if (typeof schema['type'] === 'string') return schema['type']
  if (schema['properties'] !== undefined || schema['additionalProperties'] !== undefined) return 'object'
  return schema['items'] === undefined ? null : 'array'
}

/** Every value of type `inner` is one of type `outer`; null is any type. */
const isTypeWithin = (inner: string | null, outer: string | null): boolean =>
  outer === null || inner === outer || (inner === 'integer' && outer === 'number')

const compareSchemas = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> => {
  const pair = `${direction} ${textAt(base, '$ref')} ${textAt(next, '$ref')}`
  const named = base['$ref'] !== undefined && next['$ref'] !== undefined
  if (named && (context.open.has(pair) || isSame(context, base, next))) return []
  const inside: Context = named ? { ...context, open: new Set([...context.open, pair]) } : context

  const before = alternatives(context.base, base)
  const after = alternatives(context.next, next)
  const [only, now] = [before[0], after[0]]
  if (before.length === 1 && after.length === 1 && only !== undefined && now !== undefined) {
    return compareAlternative(inside, only, now, direction, where)
  }

  // Each alternative of before must still be there, changed by additions only. In an answer, besides, each of
  // after must be one that a client knows.
  const changes: Array<Change> = []
  const nearest = (candidates: ReadonlyArray<ReadonlyArray<Change>>): ReadonlyArray<Change> =>
    candidates.toSorted(
      (a, b) => a.filter(isBreak).length - b.filter(isBreak).length || a.length - b.length,
    )[0] ?? []
  for (const one of before) {
    const candidates = after
      .filter((other) => typeOf(other) === typeOf(one) || isTypeWithin(typeOf(one), typeOf(other)))
      .map((other) => compareAlternative(inside, one, other, direction, where))
    if (candidates.length === 0) changes.push(breaking('type-removed', `${where} (${typeOf(one) ?? 'any'})`))
    else changes.push(...nearest(candidates))
  }
  for (const other of after) {
    const known = before
      .filter((one) => isTypeWithin(typeOf(other), typeOf(one)))
      .some((one) => !hasBreaking(compareAlternative(inside, one, other, direction, where)))
    const matched = before.some(
      (one) =>
        typeOf(one) === typeOf(other) &&
        !hasBreaking(compareAlternative(inside, one, other, direction, where)),
    )
    if (direction === 'response' && !known)
      changes.push(breaking('type-added', `${where} (${typeOf(other) ?? 'any'})`))
    if (direction === 'request' && !matched)
      changes.push(additive('type-added', `${where} (${typeOf(other) ?? 'any'})`))
  }
  return changes
}

const isBreak = (change: Change): boolean => change.kind === 'breaking'

const compareAlternative = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> => {
  const [was, is] = [typeOf(base), typeOf(next)]
  const fits = direction === 'request' ? isTypeWithin(was, is) : isTypeWithin(is, was)
  // Nothing else can be compared between two types.
  if (!fits) return [breaking('type-changed', `${where} (${was ?? 'any'} → ${is ?? 'any'})`)]
  return [
    ...(was === is ? [] : [additive('type-changed', `${where} (${was ?? 'any'} → ${is ?? 'any'})`)]),
    ...compareValues(base, next, direction, where),
    ...compareBounds(base, next, direction, where),
    ...compareProperties(context, base, next, direction, where),
    ...compareOpenness(context, base, next, direction, where),
    ...compareUnknown(base, next, where),
  ]
}

const valuesOf = (schema: JsonObject): ReadonlySet<string> | null => {
  if (Array.isArray(schema['enum'])) return new Set(schema['enum'].map(canonical))
  return schema['const'] === undefined ? null : new Set([canonical(schema['const'])])
}

/** Enumerations may grow in both directions and never shrink. */
const compareValues = (
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const [before, after] = [valuesOf(base), valuesOf(next)]
  if (before === null && after === null) return []
  if (before === null) {
    return direction === 'request'
      ? [breaking('enumeration-narrowed', where)]
      : [additive('enumeration-added', where)]
  }
  if (after === null) return [additive('enumeration-opened', where)]
  return [
    ...[...before]
      .filter((v) => !after.has(v))
      .map((v) => breaking('enumeration-narrowed', `${where} (${v})`)),
    ...[...after]
      .filter((v) => !before.has(v))
      .map((v) => additive('enumeration-value-added', `${where} (${v})`)),
  ]
}

const numberAt = (schema: JsonObject, name: string): number | null => {
  const value = schema[name]
  return typeof value === 'number' ? value : null
}

/** A request may come to allow more, an answer less. */
const compareBounds = (
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const changes: Array<Change> = []
  /** `less`: after the change, fewer values are allowed. */
  const note = (name: string, less: boolean) => {
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
      if (before === null) note(name, true)
      else if (after === null) note(name, false)
      else note(name, (after - before) * sign > 0)
    }
  }
  for (const name of FILTERS) {
    const [before, after] = [base[name], next[name]]
    if (canonical(before) === canonical(after)) continue
    if (before === undefined) note(name, true)
    else if (after === undefined) note(name, false)
    else changes.push(breaking(`${name}-changed`, where))
  }
  if (base['default'] !== undefined && canonical(base['default']) !== canonical(next['default'])) {
    // What an absent field means has changed.
    changes.push(breaking('default-changed', where))
  }
  return changes
}

const compareProperties = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const changes: Array<Change> = []
  const [before, after] = [objectAt(base, 'properties'), objectAt(next, 'properties')]
  const [needed, needs] = [new Set(listAt(base, 'required')), new Set(listAt(next, 'required'))]
  for (const [name, schema] of Object.entries(before)) {
    const at = `${where}.${name}`
    if (!Object.hasOwn(after, name)) {
      changes.push(breaking('field-removed', at))
      continue
    }
    if (needed.has(name) && !needs.has(name)) {
      changes.push((direction === 'request' ? additive : breaking)('field-became-optional', at))
    }
    if (!needed.has(name) && needs.has(name)) {
      changes.push((direction === 'request' ? breaking : additive)('field-became-required', at))
    }
    const now = after[name]
    changes.push(...compareSchemas(context, asSchema(schema), asSchema(now), direction, at))
  }
  for (const name of Object.keys(after)) {
    if (Object.hasOwn(before, name)) continue
    const required = direction === 'request' && needs.has(name)
    changes.push(
      (required ? breaking : additive)(required ? 'required-field-added' : 'field-added', `${where}.${name}`),
    )
  }
  // A name may be required without being described.
  for (const name of needs) {
    if (typeof name !== 'string' || needed.has(name) || Object.hasOwn(after, name)) continue
    if (direction === 'request') changes.push(breaking('required-field-added', `${where}.${name}`))
  }
  return changes
}

/** True and absent mean anything. */
const asSchema = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})
const isAny = (value: Json | undefined): boolean =>
  value === undefined ||
  value === true ||
  (isObject(value) && Object.keys(value).every((key) => ANNOTATIONS.has(key)))

/** What stands for members that have no name of their own: other fields, elements of a list. */
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
    if (isAny(before) && isAny(after)) continue
    if (before === false || after === false) {
      if (before === after) continue
      // Opening an object is what the rules ask for; closing one refuses what clients may send.
      const closed = after === false && direction === 'request'
      changes.push((closed ? breaking : additive)(after === false ? `${name}-closed` : `${name}-opened`, at))
    } else if (isAny(before)) {
      changes.push((direction === 'request' ? breaking : additive)(`${name}-restricted`, at))
    } else if (isAny(after)) {
      changes.push((direction === 'request' ? additive : breaking)(`${name}-opened`, at))
    } else {
      changes.push(...compareSchemas(context, asSchema(before), asSchema(after), direction, at))
    }
  }
  return changes
}

/** A keyword that the gate does not understand must not change. */
const compareUnknown = (base: JsonObject, next: JsonObject, where: string): Array<Change> =>
  [...new Set([...Object.keys(base), ...Object.keys(next)])]
    .filter((name) => !COMPARED.has(name) && !ANNOTATIONS.has(name) && !name.startsWith('x-'))
    .filter((name) => canonical(base[name]) !== canonical(next[name]))
    .map((name) => breaking('keyword-changed', `${where} (${name})`))

// ---------------------------------------------------------------------------------------------------------
// Operations
// ---------------------------------------------------------------------------------------------------------

interface Operation {
  readonly where: string
  readonly path: string
  readonly item: JsonObject
  readonly is: JsonObject
}

/** `/v1/messages/{id}` and `/v1/messages/{message}` are one path. */
const pathKey = (path: string): string => path.replaceAll(/\{[^}]*\}/gu, '{}')

const operationsOf = (document: JsonObject): ReadonlyMap<string, Operation> => {
  const operations = new Map<string, Operation>()
  for (const [path, item] of Object.entries(objectAt(document, 'paths'))) {
    if (!isObject(item)) continue
    for (const method of METHODS) {
      const is = item[method]
      if (!isObject(is)) continue
      const where = `${method.toUpperCase()} ${path}`
      operations.set(`${method} ${pathKey(path)}`, { where, path, item, is })
    }
  }
  return operations
}

const DAY_MS = 86_400_000

/** `/v1` of `/v1/messages`, as a number. */
const pathVersion = (path: string): number => Number(/^\/v([0-9]+)(?:\/|$)/u.exec(path)?.[1] ?? 0)

const compareRemoval = (operation: Operation, next: JsonObject, today: string): Change => {
  const since = operation.is[DEPRECATED_SINCE]
  const announced =
    operation.is['deprecated'] === true && typeof since === 'string' ? Date.parse(since) : Number.NaN
  const days = (Date.parse(today) - announced) / DAY_MS
  const newer = Object.keys(objectAt(next, 'paths')).some(
    (path) => pathVersion(path) > pathVersion(operation.path),
  )
  if (Number.isNaN(days)) return breaking('operation-removed', operation.where)
  if (days < DEPRECATION_DAYS) return breaking('operation-removed-too-early', operation.where)
  if (!newer) return breaking('operation-removed-without-new-version', operation.where)
  return additive('deprecated-operation-removed', operation.where)
}

const parametersOf = (document: JsonObject, operation: Operation): ReadonlyMap<string, JsonObject> => {
  const parameters = new Map<string, JsonObject>()
  const places = [...operation.path.matchAll(/\{([^}]*)\}/gu)].map((match) => match[1])
  // Those of the operation come after those of its path, and win.
  for (const given of [...listAt(operation.item, 'parameters'), ...listAt(operation.is, 'parameters')]) {
    if (!isObject(given)) continue
    const parameter = resolve(document, given)
    const [name, place] = [textAt(parameter, 'name'), textAt(parameter, 'in')]
    const key =
      place === 'path' ? String(places.indexOf(name)) : place === 'header' ? name.toLowerCase() : name
    parameters.set(`${place} ${key}`, parameter)
  }
  return parameters
}

const compareParameters = (context: Context, base: Operation, next: Operation): Array<Change> => {
  const changes: Array<Change> = []
  const [before, after] = [parametersOf(context.base, base), parametersOf(context.next, next)]
  for (const [key, parameter] of before) {
    const where = `${base.where} (${textAt(parameter, 'in')} ${textAt(parameter, 'name')})`
    const now = after.get(key)
    if (now === undefined) {
      changes.push(breaking('parameter-removed', where))
      continue
    }
    if (parameter['required'] !== true && now['required'] === true)
      changes.push(breaking('parameter-became-required', where))
    if (parameter['required'] === true && now['required'] !== true)
      changes.push(additive('parameter-became-optional', where))
    for (const name of ['style', 'explode', 'allowReserved', 'content'] as const) {
      if (canonical(parameter[name]) !== canonical(now[name]))
        changes.push(breaking('parameter-form-changed', where))
    }
    changes.push(
      ...compareSchemas(context, objectAt(parameter, 'schema'), objectAt(now, 'schema'), 'request', where),
    )
  }
  for (const [key, parameter] of after) {
    if (before.has(key)) continue
    const where = `${base.where} (${textAt(parameter, 'in')} ${textAt(parameter, 'name')})`
    changes.push(
      parameter['required'] === true
        ? breaking('required-parameter-added', where)
        : additive('parameter-added', where),
    )
  }
  return changes
}

const compareContents = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): Array<Change> => {
  const changes: Array<Change> = []
  const [before, after] = [objectAt(base, 'content'), objectAt(next, 'content')]
  for (const [type, media] of Object.entries(before)) {
    const now = after[type]
    if (now === undefined) changes.push(breaking('media-type-removed', `${where} ${type}`))
    else {
      changes.push(
        ...compareSchemas(
          context,
          objectAt(asSchema(media), 'schema'),
          objectAt(asSchema(now), 'schema'),
          direction,
          `${where} ${type}`,
        ),
      )
    }
  }
  for (const type of Object.keys(after)) {
    if (!Object.hasOwn(before, type)) changes.push(additive('media-type-added', `${where} ${type}`))
  }
  return changes
}

const compareBodies = (context: Context, base: Operation, next: Operation): Array<Change> => {
  const where = `${base.where} → body`
  const [given, now] = [base.is['requestBody'], next.is['requestBody']]
  if (!isObject(given) && !isObject(now)) return []
  if (!isObject(given)) {
    const required = resolve(context.next, asSchema(now))['required'] === true
    return [required ? breaking('required-body-added', where) : additive('body-added', where)]
  }
  if (!isObject(now)) return [breaking('body-removed', where)]
  const [before, after] = [resolve(context.base, given), resolve(context.next, now)]
  return [
    ...(before['required'] !== true && after['required'] === true
      ? [breaking('body-became-required', where)]
      : []),
    ...(before['required'] === true && after['required'] !== true
      ? [additive('body-became-optional', where)]
      : []),
    ...compareContents(context, before, after, 'request', where),
  ]
}

const headersOf = (document: JsonObject, response: JsonObject): ReadonlyMap<string, JsonObject> =>
  new Map(
    Object.entries(objectAt(response, 'headers')).map(([name, header]) => [
      name.toLowerCase(),
      resolve(document, asSchema(header)),
    ]),
  )

const compareResponses = (context: Context, base: Operation, next: Operation): Array<Change> => {
  const changes: Array<Change> = []
  const [before, after] = [objectAt(base.is, 'responses'), objectAt(next.is, 'responses')]
  for (const [status, given] of Object.entries(before)) {
    const where = `${base.where} → ${status}`
    const now = after[status]
    if (now === undefined) {
      changes.push(breaking('response-removed', where))
      continue
    }
    const [was, is] = [resolve(context.base, asSchema(given)), resolve(context.next, asSchema(now))]
    changes.push(...compareContents(context, was, is, 'response', where))
    const [had, has] = [headersOf(context.base, was), headersOf(context.next, is)]
    for (const [name, header] of had) {
      const at = `${where} (header ${name})`
      const other = has.get(name)
      if (other === undefined) {
        changes.push(breaking('header-removed', at))
        continue
      }
      if (header['required'] === true && other['required'] !== true)
        changes.push(breaking('header-became-optional', at))
      changes.push(
        ...compareSchemas(context, objectAt(header, 'schema'), objectAt(other, 'schema'), 'response', at),
      )
    }
    for (const name of has.keys()) {
      if (!had.has(name)) changes.push(additive('header-added', `${where} (header ${name})`))
    }
  }
  for (const status of Object.keys(after)) {
    if (!Object.hasOwn(before, status)) changes.push(additive('response-added', `${base.where} → ${status}`))
  }
  return changes
}

/** The ways in, each a set of schemes, written out: a scheme that changes under its name is another one. */
const waysIn = (document: JsonObject, operation: Operation): ReadonlyArray<ReadonlySet<string>> => {
  const given = operation.is['security'] ?? document['security']
  const ways = Array.isArray(given) ? given.filter(isObject) : []
  const schemes = objectAt(objectAt(document, 'components'), 'securitySchemes')
  const scheme = (name: string, scopes: Json | undefined): string => {
    const { description: _, ...is } = objectAt(schemes, name)
    return canonical({ ...is, scopes: scopes ?? [] })
  }
  return ways.length === 0
    ? [new Set()]
    : ways.map((way) => new Set(Object.entries(way).map(([name, scopes]) => scheme(name, scopes))))
}

const compareSecurity = (context: Context, base: Operation, next: Operation): Array<Change> => {
  const [before, after] = [waysIn(context.base, base), waysIn(context.next, next)]
  const opens = (way: ReadonlySet<string>, ways: ReadonlyArray<ReadonlySet<string>>) =>
    ways.some((other) => [...other].every((scheme) => way.has(scheme)))
  if (!before.every((way) => opens(way, after))) {
    return [
      breaking(before.some((way) => way.size === 0) ? 'operation-secured' : 'security-changed', base.where),
    ]
  }
  return after.every((way) => opens(way, before)) ? [] : [additive('security-relaxed', base.where)]
}

const compareDeprecation = (base: Operation, next: Operation): Array<Change> => {
  if (next.is['deprecated'] !== true) {
    return base.is['deprecated'] === true ? [additive('deprecation-withdrawn', base.where)] : []
  }
  const [was, since] = [base.is[DEPRECATED_SINCE], next.is[DEPRECATED_SINCE]]
  if (typeof since !== 'string' || Number.isNaN(Date.parse(since)))
    return [breaking('deprecation-without-date', base.where)]
  if (base.is['deprecated'] === true && typeof was === 'string' && was !== since) {
    return [breaking('deprecation-date-changed', base.where)]
  }
  return base.is['deprecated'] === true ? [] : [additive('operation-deprecated', base.where)]
}

/**
 * What changed from one description to the next, in the order of the first. `today` (`2026-11-21`) decides whether
 * a deprecated operation may go.
 */
export const compareDescriptions = (
  base: JsonObject,
  next: JsonObject,
  today: string,
): ReadonlyArray<Change> => {
  const context: Context = { base, next, open: new Set(), unchanged: unchangedIn(base, next) }
  const changes: Array<Change> = []
  const [before, after] = [operationsOf(base), operationsOf(next)]
  for (const [key, operation] of before) {
    const now = after.get(key)
    if (now === undefined) {
      changes.push(compareRemoval(operation, next, today))
      continue
    }
    changes.push(
      ...compareDeprecation(operation, now),
      ...compareSecurity(context, operation, now),
      ...compareParameters(context, operation, now),
    )
    if (isSame(context, operation.is, now.is)) continue
    changes.push(...compareBodies(context, operation, now), ...compareResponses(context, operation, now))
  }
  for (const [key, operation] of after) {
    if (!before.has(key)) changes.push(additive('operation-added', operation.where))
  }
  return changes
}
