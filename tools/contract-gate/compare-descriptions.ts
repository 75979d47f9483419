/**
 * Compares two OpenAPI descriptions by the rules of their versions. Pure.
 *
 * Additive changes are allowed at any time: a new response field, enumeration value, endpoint,
 * optional parameter or request field, or a wider request. Every other change of what may be sent
 * or received is breaking and needs a new path version, so that the gate also stops changes that
 * this code does not know. Descriptions, examples and component names are not compared: they do not
 * affect programs. Source: VER-8, VER-9.
 */
import { isJsonObject, type Json, type JsonObject } from '@hub/contract'
import {
  additive,
  breaking,
  canonical,
  type Change,
  compareParts,
  compareUnknownMembers,
  type Context,
  type Direction,
  isSame,
  listAt,
  objectAt,
  partsAt,
  resolve,
  textAt,
  unchangedIn,
} from './document.ts'
import { asSchema, compareSchemas } from './compare-schemas.ts'
import {
  compareOperationSunset,
  compareSunset,
  compareSunsetRemoval,
  DEPRECATION_DAYS,
  sunsetOf,
} from './sunset.ts'

export type { Change } from './document.ts'

/** Field for the day of the announcement (`2026-11-21`), beside `deprecated: true`. */
const DEPRECATED_SINCE = 'x-deprecated-since'

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const

/** Members of a document, and of its parts, that are compared one by one or that no program can notice. */
const DOCUMENT_MEMBERS = new Set([
  'openapi',
  'info',
  'servers',
  'tags',
  'externalDocs',
  'paths',
  'webhooks',
  'components',
  'security',
])
const PATH_MEMBERS = new Set<string>([...METHODS, 'summary', 'description', 'parameters'])
const OPERATION_MEMBERS = new Set([
  'operationId',
  'tags',
  'summary',
  'description',
  'externalDocs',
  'parameters',
  'requestBody',
  'responses',
  'security',
  'deprecated',
  'callbacks',
])
const PARAMETER_MEMBERS = new Set([
  'name',
  'in',
  'description',
  'required',
  'deprecated',
  'schema',
  'example',
  'examples',
])
const BODY_MEMBERS = new Set(['description', 'required', 'content'])
const MEDIA_MEMBERS = new Set(['schema', 'example', 'examples'])
const RESPONSE_MEMBERS = new Set(['description', 'headers', 'content'])

interface Operation {
  readonly where: string
  readonly path: string
  readonly item: JsonObject
  readonly is: JsonObject
}

/** `/v1/messages/{id}` and `/v1/messages/{message}` are the same path. */
const pathKey = (path: string): string => path.replaceAll(/\{[^}]*\}/gu, '{}')

/** The operations of `items`, path items by path or name. `kind`: the first words of their place in a change. */
const operationsIn = (
  document: JsonObject,
  items: JsonObject,
  kind: string,
): ReadonlyMap<string, Operation> => {
  const operations = new Map<string, Operation>()
  for (const [path, given] of Object.entries(items)) {
    if (!isJsonObject(given)) continue
    const item = resolve(document, given)
    for (const method of METHODS) {
      const is = item[method]
      if (!isJsonObject(is)) continue
      const where = `${kind}${method.toUpperCase()} ${path}`
      operations.set(`${kind}${method} ${pathKey(path)}`, { where, path, item, is })
    }
  }
  return operations
}

/** What clients request. */
const operationsOf = (document: JsonObject): ReadonlyMap<string, Operation> =>
  operationsIn(document, objectAt(document, 'paths'), '')

const webhooksOf = (document: JsonObject): ReadonlyMap<string, Operation> =>
  operationsIn(document, objectAt(document, 'webhooks'), 'webhook ')

const callbacksOf = (document: JsonObject, { is, where }: Operation): ReadonlyMap<string, Operation> =>
  new Map(
    [...partsAt(is, 'callbacks')].flatMap(([name, callback]) => {
      const items = resolve(document, asSchema(callback))
      return [...operationsIn(document, items, `callback ${name} of ${where}: `)]
    }),
  )

const DAY_MS = 86_400_000

/** The version number of a path: 1 for `/v1/messages`. */
const pathVersion = (path: string): number => Number(/^\/v([0-9]+)(?:\/|$)/u.exec(path)?.[1] ?? 0)

/** `/v1/messages` and `/v2/messages` are versions of the same path. */
const versionless = (path: string): string => pathKey(path).replace(/^\/v[0-9]+(?=\/|$)/u, '')

const compareRemoval = (operation: Operation, next: JsonObject, today: string): Change => {
  const since = operation.is[DEPRECATED_SINCE]
  const announced =
    operation.is['deprecated'] === true && typeof since === 'string' ? Date.parse(since) : Number.NaN
  const days = (Date.parse(today) - announced) / DAY_MS
  const newer = Object.keys(objectAt(next, 'paths')).some(
    (path) => pathVersion(path) > pathVersion(operation.path),
  )
  if (Number.isNaN(days)) return breaking('operation-removed', operation.where)
  const sunset = sunsetOf(operation.is)
  if (days < DEPRECATION_DAYS || (sunset !== null && today < sunset)) {
    return breaking('operation-removed-too-early', operation.where)
  }
  if (!newer) return breaking('operation-removed-without-new-version', operation.where)
  return additive('deprecated-operation-removed', operation.where)
}

/** Whether a description has a path in a newer version, to which its clients can move. */
const hasNewerVersion = (document: JsonObject, path: string): boolean =>
  Object.keys(objectAt(document, 'paths')).some(
    (other) => versionless(other) === versionless(path) && pathVersion(other) > pathVersion(path),
  )

const parametersOf = (document: JsonObject, operation: Operation): ReadonlyMap<string, JsonObject> => {
  const parameters = new Map<string, JsonObject>()
  const places = [...operation.path.matchAll(/\{([^}]*)\}/gu)].map((match) => match[1])
  // Parameters of the operation override parameters of its path.
  for (const given of [...listAt(operation.item, 'parameters'), ...listAt(operation.is, 'parameters')]) {
    if (!isJsonObject(given)) continue
    const parameter = resolve(document, given)
    const [name, place] = [textAt(parameter, 'name'), textAt(parameter, 'in')]
    const key =
      place === 'path' ? String(places.indexOf(name)) : place === 'header' ? name.toLowerCase() : name
    parameters.set(`${place} ${key}`, parameter)
  }
  return parameters
}

/** Whether a part of a request must be sent. */
const compareRequired = (
  part: 'parameter' | 'body',
  base: JsonObject,
  next: JsonObject,
  where: string,
): ReadonlyArray<Change> => {
  const [was, is] = [base['required'] === true, next['required'] === true]
  if (was === is) return []
  return [is ? breaking(`${part}-became-required`, where) : additive(`${part}-became-optional`, where)]
}

const compareParameters = (context: Context, base: Operation, next: Operation): ReadonlyArray<Change> => {
  const at = (parameter: JsonObject) =>
    `${base.where} (${textAt(parameter, 'in')} ${textAt(parameter, 'name')})`
  const placeOf = (parameter: JsonObject) => ({
    what: 'parameter' as const,
    where: at(parameter),
  })
  return compareParts(parametersOf(context.base, base), parametersOf(context.next, next), {
    removed: (parameter) => compareSunsetRemoval(context, parameter, placeOf(parameter)),
    kept: (parameter, now) => {
      const where = at(parameter)
      return [
        ...compareRequired('parameter', parameter, now, where),
        ...compareUnknownMembers(parameter, now, PARAMETER_MEMBERS, 'parameter-form-changed', where),
        ...compareSunset(context, parameter, now, placeOf(parameter)),
        ...compareSchemas(context, objectAt(parameter, 'schema'), objectAt(now, 'schema'), 'request', where),
      ]
    },
    added: (parameter) =>
      parameter['required'] === true
        ? breaking('required-parameter-added', at(parameter))
        : additive('parameter-added', at(parameter)),
  })
}

const compareContents = (
  context: Context,
  base: JsonObject,
  next: JsonObject,
  direction: Direction,
  where: string,
): ReadonlyArray<Change> =>
  compareParts(partsAt(base, 'content'), partsAt(next, 'content'), {
    removed: (_, type) => breaking('media-type-removed', `${where} ${type}`),
    kept: (media, now, type) => {
      const [was, is, at] = [asSchema(media), asSchema(now), `${where} ${type}`]
      return [
        ...compareUnknownMembers(was, is, MEDIA_MEMBERS, 'media-type-changed', at),
        ...compareSchemas(context, objectAt(was, 'schema'), objectAt(is, 'schema'), direction, at),
      ]
    },
    added: (_, type) => additive('media-type-added', `${where} ${type}`),
  })

const compareBodies = (
  context: Context,
  base: Operation,
  next: Operation,
  direction: Direction,
): ReadonlyArray<Change> => {
  const where = `${base.where} → body`
  const [given, now] = [base.is['requestBody'], next.is['requestBody']]
  if (!isJsonObject(given) && !isJsonObject(now)) return []
  if (!isJsonObject(given)) {
    const required = resolve(context.next, asSchema(now))['required'] === true
    return [required ? breaking('required-body-added', where) : additive('body-added', where)]
  }
  if (!isJsonObject(now)) return [breaking('body-removed', where)]
  const [before, after] = [resolve(context.base, given), resolve(context.next, now)]
  return [
    ...compareRequired('body', before, after, where),
    ...compareUnknownMembers(before, after, BODY_MEMBERS, 'body-changed', where),
    ...compareContents(context, before, after, direction, where),
  ]
}

const headersOf = (document: JsonObject, response: JsonObject): ReadonlyMap<string, JsonObject> =>
  new Map(
    Object.entries(objectAt(response, 'headers')).map(([name, header]) => [
      name.toLowerCase(),
      resolve(document, asSchema(header)),
    ]),
  )

/** Headers that the hub sends: those of a response, and those of a webhook. */
const compareSentHeaders = (
  context: Context,
  base: ReadonlyMap<string, JsonObject>,
  next: ReadonlyMap<string, JsonObject>,
  where: string,
): ReadonlyArray<Change> =>
  compareParts(base, next, {
    removed: (_, name) => breaking('header-removed', `${where} (header ${name})`),
    kept: (header, now, name) => {
      const at = `${where} (header ${name})`
      return [
        ...(header['required'] === true && now['required'] !== true
          ? [breaking('header-became-optional', at)]
          : []),
        ...compareUnknownMembers(header, now, PARAMETER_MEMBERS, 'header-form-changed', at),
        ...compareSchemas(context, objectAt(header, 'schema'), objectAt(now, 'schema'), 'response', at),
      ]
    },
    added: (_, name) => additive('header-added', `${where} (header ${name})`),
  })

const compareResponses = (
  context: Context,
  base: Operation,
  next: Operation,
  direction: Direction,
): ReadonlyArray<Change> =>
  compareParts(partsAt(base.is, 'responses'), partsAt(next.is, 'responses'), {
    removed: (_, status) => breaking('response-removed', `${base.where} → ${status}`),
    kept: (response, now, status) => {
      const where = `${base.where} → ${status}`
      const [was, is] = [resolve(context.base, asSchema(response)), resolve(context.next, asSchema(now))]
      return [
        ...compareUnknownMembers(was, is, RESPONSE_MEMBERS, 'response-changed', where),
        ...compareContents(context, was, is, direction, where),
        ...compareSentHeaders(context, headersOf(context.base, was), headersOf(context.next, is), where),
      ]
    },
    added: (_, status) => additive('response-added', `${base.where} → ${status}`),
  })

/**
 * The alternative security requirements of an operation. Each is a set of schemes, written out in
 * full, so that a scheme that changes under the same name counts as another scheme.
 */
const securityRequirements = (
  document: JsonObject,
  operation: Operation,
): ReadonlyArray<ReadonlySet<string>> => {
  const given = operation.is['security'] ?? document['security']
  const requirements = Array.isArray(given) ? given.filter(isJsonObject) : []
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

const compareDeprecation = (base: Operation, next: Operation, today: string): ReadonlyArray<Change> => {
  if (next.is['deprecated'] !== true) {
    return base.is['deprecated'] === true ? [additive('deprecation-withdrawn', base.where)] : []
  }
  const [was, since] = [base.is[DEPRECATED_SINCE], next.is[DEPRECATED_SINCE]]
  if (typeof since !== 'string' || Number.isNaN(Date.parse(since)))
    return [breaking('deprecation-without-date', base.where)]
  if (base.is['deprecated'] === true && typeof was === 'string' && was !== since) {
    return [breaking('deprecation-date-changed', base.where)]
  }
  return [
    ...(base.is['deprecated'] === true ? [] : [additive('operation-deprecated', base.where)]),
    ...compareOperationSunset(base.is, next.is, today, base.where),
  ]
}

/** A client reaches the hub at any of these addresses. */
const compareServers = (base: JsonObject, next: JsonObject): ReadonlyArray<Change> => {
  const serversOf = (document: JsonObject) =>
    new Map(
      listAt(document, 'servers').map((server) => {
        const { description: _, ...is } = asSchema(server)
        return [canonical(is), textAt(is, 'url')] as const
      }),
    )
  return compareParts(serversOf(base), serversOf(next), {
    removed: (url) => breaking('server-removed', url),
    kept: () => [],
    added: (url) => additive('server-added', url),
  })
}

const compareItems = (base: Operation, next: Operation): Array<Change> => [
  ...compareUnknownMembers(base.item, next.item, PATH_MEMBERS, 'path-changed', base.where),
  ...compareUnknownMembers(base.is, next.is, OPERATION_MEMBERS, 'operation-changed', base.where),
]

/** What the hub sends to clients in webhooks or in the callbacks of an operation, and what they may answer. */
const compareWebhooks = (
  context: Context,
  base: ReadonlyMap<string, Operation>,
  next: ReadonlyMap<string, Operation>,
): ReadonlyArray<Change> => {
  const headers = (document: JsonObject, webhook: Operation) =>
    new Map(
      [...parametersOf(document, webhook)].map(([key, parameter]) => [
        textAt(parameter, 'in') === 'header' ? textAt(parameter, 'name').toLowerCase() : key,
        parameter,
      ]),
    )
  return compareParts(base, next, {
    removed: (webhook) => breaking('webhook-removed', webhook.where),
    kept: (webhook, now) => [
      ...compareItems(webhook, now),
      ...compareSentHeaders(
        context,
        headers(context.base, webhook),
        headers(context.next, now),
        webhook.where,
      ),
      ...compareBodies(context, webhook, now, 'response'),
      ...compareResponses(context, webhook, now, 'request'),
    ],
    added: (webhook) => additive('webhook-added', webhook.where),
  })
}

/**
 * The changes of a description. `today` decides whether a deprecated part may go. `readsOlderAnswers`: a client of the
 * new description also reads answers of a server of the old one, so a new field of an answer must be optional.
 */
export const compareDescriptions = (
  base: JsonObject,
  next: JsonObject,
  today: string,
  readsOlderAnswers = false,
): ReadonlyArray<Change> => {
  const context: Context = {
    base,
    next,
    today,
    hasNewerVersion: false,
    readsOlderAnswers,
    open: new Set(),
    compared: new Map(),
    unchanged: unchangedIn(base, next),
  }
  const operations = compareParts(operationsOf(base), operationsOf(next), {
    removed: (operation) => compareRemoval(operation, next, today),
    kept: (operation, now) => {
      const inside: Context = { ...context, hasNewerVersion: hasNewerVersion(next, operation.path) }
      return [
        ...compareItems(operation, now),
        ...compareDeprecation(operation, now, today),
        ...compareSecurity(inside, operation, now),
        ...compareParameters(inside, operation, now),
        ...(isSame(inside, operation.is, now.is)
          ? []
          : [
              ...compareBodies(inside, operation, now, 'request'),
              ...compareResponses(inside, operation, now, 'response'),
              ...compareWebhooks(inside, callbacksOf(base, operation), callbacksOf(next, now)),
            ]),
      ]
    },
    added: (operation) => additive('operation-added', operation.where),
  })
  return [
    ...compareUnknownMembers(base, next, DOCUMENT_MEMBERS, 'document-changed', 'description'),
    ...compareServers(base, next),
    ...operations,
    ...compareWebhooks(context, webhooksOf(base), webhooksOf(next)),
  ]
}
