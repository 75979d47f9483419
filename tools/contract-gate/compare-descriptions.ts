/**
 * Compares two OpenAPI descriptions by the versioning rules of the specification. Pure.
 *
 * Additive changes are allowed at any time: a new response field, enumeration value, endpoint,
 * optional parameter or request field, or a wider request. Every other change of what may be sent
 * or received is breaking and needs a new path version, so that the gate also stops changes that
 * this code does not know. Descriptions, examples and component names are not compared: they do not
 * affect programs. Source: specification, Versioning, 3 to 6.
 */
import type { Json, JsonObject } from '@hub/contract'
import {
  additive,
  breaking,
  canonical,
  type Change,
  type Context,
  type Direction,
  isObject,
  isSame,
  listAt,
  objectAt,
  resolve,
  textAt,
  unchangedIn,
} from './document.ts'
import { asSchema, compareSchemas } from './compare-schemas.ts'

export type { Change } from './document.ts'

/** Days from announcement to removal of an operation. Specification, Versioning, 5. */
const DEPRECATION_DAYS = 90

/** Field for the day of the announcement (`2026-11-21`), beside `deprecated: true`. */
const DEPRECATED_SINCE = 'x-deprecated-since'

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const

interface Operation {
  readonly where: string
  readonly path: string
  readonly item: JsonObject
  readonly is: JsonObject
}

/** `/v1/messages/{id}` and `/v1/messages/{message}` are the same path. */
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

/** The version number of a path: 1 for `/v1/messages`. */
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
  // Parameters of the operation override parameters of its path.
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

/**
 * The alternative security requirements of an operation. Each is a set of schemes, written out in
 * full, so that a scheme that changes under the same name counts as another scheme.
 */
const securityRequirements = (
  document: JsonObject,
  operation: Operation,
): ReadonlyArray<ReadonlySet<string>> => {
  const given = operation.is['security'] ?? document['security']
  const requirements = Array.isArray(given) ? given.filter(isObject) : []
  const schemes = objectAt(objectAt(document, 'components'), 'securitySchemes')
  const scheme = (name: string, scopes: Json | undefined): string => {
    const { description: _, ...is } = objectAt(schemes, name)
    return canonical({ ...is, scopes: scopes ?? [] })
  }
  return requirements.length === 0
    ? [new Set()]
    : requirements.map(
        (requirement) => new Set(Object.entries(requirement).map(([name, scopes]) => scheme(name, scopes))),
      )
}

const compareSecurity = (context: Context, base: Operation, next: Operation): Array<Change> => {
  const [before, after] = [securityRequirements(context.base, base), securityRequirements(context.next, next)]
  const isAccepted = (requirement: ReadonlySet<string>, others: ReadonlyArray<ReadonlySet<string>>) =>
    others.some((other) => [...other].every((scheme) => requirement.has(scheme)))
  if (!before.every((requirement) => isAccepted(requirement, after))) {
    return [
      breaking(
        before.some((requirement) => requirement.size === 0) ? 'operation-secured' : 'security-changed',
        base.where,
      ),
    ]
  }
  return after.every((requirement) => isAccepted(requirement, before))
    ? []
    : [additive('security-relaxed', base.where)]
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

/** The changes of a description. `today` decides whether a deprecated operation may go. */
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
