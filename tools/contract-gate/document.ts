/** The change type of the contract gate, and helpers that read an OpenAPI document. */
import { isJsonObject, type Json, type JsonObject } from '@hub/contract'

export interface Change {
  readonly kind: 'breaking' | 'additive'
  /** The rule that found it, such as `field-removed`. */
  readonly rule: string
  /** The place in the description, such as `POST /v1/messages → 202 application/json.price`. */
  readonly where: string
}

/** The hub must still understand old requests. Clients must still understand new responses. */
export type Direction = 'request' | 'response'

export interface Context {
  readonly base: JsonObject
  readonly next: JsonObject
  /** `2026-11-21`: decides whether a deprecated part may go. */
  readonly today: string
  /** Whether the new document has the compared path in a newer version, such as `/v2/messages`. */
  readonly hasNewerVersion: boolean
  /** Whether a client of the new document also reads answers of a server of the old one. */
  readonly readsOlderAnswers: boolean
  /** Pairs of schemas in comparison that contain references, so that recursive schemas end. */
  readonly open: ReadonlySet<string>
  /** The changes of named schemas that were compared before, with the place inside the schema. */
  readonly compared: Map<string, ReadonlyArray<Change>>
  /** References to components that are equal in both documents, with all they refer to. */
  readonly unchanged: ReadonlySet<string>
}

export const objectAt = (object: JsonObject | undefined, name: string): JsonObject => {
  const value = object !== undefined && Object.hasOwn(object, name) ? object[name] : undefined
  return isJsonObject(value) ? value : {}
}

export const partsAt = (object: JsonObject, name: string): ReadonlyMap<string, Json> =>
  new Map(Object.entries(objectAt(object, name)))

export const listAt = (object: JsonObject, name: string): ReadonlyArray<Json> => {
  const value = object[name]
  return Array.isArray(value) ? value : []
}

export const textAt = (object: JsonObject, name: string): string => {
  const value = object[name]
  return typeof value === 'string' ? value : ''
}

/** JSON text with sorted names, so that equal values give equal texts. */
export const canonical = (value: Json | undefined): string =>
  JSON.stringify(value, (_, inner: Json) =>
    isJsonObject(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  ) ?? 'undefined'

export const breaking = (rule: string, where: string): Change => ({ kind: 'breaking', rule, where })
export const additive = (rule: string, where: string): Change => ({ kind: 'additive', rule, where })
export const isBreaking = (change: Change): boolean => change.kind === 'breaking'

/** The changes of the named parts of two documents, such as fields, headers or operations. */
export const compareParts = <Part>(
  before: ReadonlyMap<string, Part>,
  after: ReadonlyMap<string, Part>,
  rules: {
    readonly removed: (part: Part, name: string) => Change
    readonly kept: (base: Part, next: Part, name: string) => ReadonlyArray<Change>
    readonly added: (part: Part, name: string) => Change
  },
): ReadonlyArray<Change> => [
  ...[...before].flatMap(([name, part]) => {
    const now = after.get(name)
    return now === undefined ? rules.removed(part, name) : rules.kept(part, now, name)
  }),
  ...[...after].flatMap(([name, part]) => (before.has(name) ? [] : rules.added(part, name))),
]

/** Follows local `$ref`s. Keywords beside them win. Without a target: an empty schema. */
export const resolve = (document: JsonObject, value: JsonObject): JsonObject => {
  let at = value
  // A bound for references that form a cycle.
  for (let hops = 0; hops < 100; hops++) {
    const target = at['$ref']
    if (typeof target !== 'string') return at
    let found: Json | undefined = document
    for (const step of target.replace(/^#\//u, '').split('/')) {
      const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
      found = isJsonObject(found) && Object.hasOwn(found, name) ? found[name] : undefined
    }
    const { $ref: _, ...beside } = at
    const named: JsonObject = isJsonObject(found) ? found : {}
    at = { ...named, ...beside }
  }
  return at
}

/** By the object that contains them: descriptions do not change while they are compared. */
const references = new WeakMap<object, ReadonlyArray<string>>()

/** The local references in a value, such as `#/components/schemas/Money`. */
export const referencesIn = (value: JsonObject): ReadonlyArray<string> => {
  const known = references.get(value)
  if (known !== undefined) return known
  const found = [...JSON.stringify(value).matchAll(/"\$ref":"([^"]*)"/gu)].map((match) => match[1] ?? '')
  references.set(value, found)
  return found
}

const isEqual = (one: Json | undefined, other: Json | undefined): boolean =>
  one === other || JSON.stringify(one) === JSON.stringify(other)

/**
 * References to components that did not change. Skipping them saves most of the work. A missing one
 * is compared, and may still turn out to be equal.
 */
export const unchangedIn = (base: JsonObject, next: JsonObject): ReadonlySet<string> => {
  const unchanged = new Map<string, ReadonlyArray<string>>()
  const [before, after] = [objectAt(base, 'components'), objectAt(next, 'components')]
  for (const kind of Object.keys(before)) {
    const now = objectAt(after, kind)
    for (const [name, component] of Object.entries(objectAt(before, kind))) {
      if (isJsonObject(component) && Object.hasOwn(now, name) && isEqual(component, now[name])) {
        unchanged.set(`#/components/${kind}/${name}`, referencesIn(component))
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

/**
 * Members of an object that the gate does not compare one by one must not change, so that it stops
 * what it does not know. `compared` are those that it compares, or that no program can notice.
 */
export const compareUnknownMembers = (
  base: JsonObject,
  next: JsonObject,
  compared: ReadonlySet<string>,
  rule: string,
  where: string,
): Array<Change> =>
  [...new Set([...Object.keys(base), ...Object.keys(next)])]
    .filter((name) => !compared.has(name) && !name.startsWith('x-'))
    .filter((name) => base[name] !== next[name] && canonical(base[name]) !== canonical(next[name]))
    .map((name) => breaking(rule, `${where} (${name})`))

export const isSame = (context: Context, base: JsonObject, next: JsonObject): boolean =>
  isEqual(base, next) && referencesIn(base).every((reference) => context.unchanged.has(reference))
