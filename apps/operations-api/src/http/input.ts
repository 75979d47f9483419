/**
 * Makes the input of a use case from a request: the parameters of the path, then those of the query
 * (GET) or the fields of the body (other methods). A parameter that is left out is `null`, if the input
 * permits it. An error names the parameter, and never the value, which may be data of a person.
 */
import { Effect, Schema, SchemaAST, SchemaIssue } from 'effect'
import { type ApiFailure, invalidParameter } from './failures.ts'

/** The part of a request that becomes the input of a use case. */
export interface RequestInput {
  readonly params: Readonly<Record<string, string | undefined>>
  readonly query: URLSearchParams
  /** The parsed body; `null` without one. */
  readonly body: Readonly<Record<string, unknown>> | null
}

/** The fields of an input. Every input of a use case is a struct. */
export type InputFields = Readonly<Record<string, Schema.Codec<unknown, unknown>>>

export const fieldsOf = (input: Schema.Codec<unknown, unknown>): InputFields => {
  const fields: unknown = Reflect.get(input, 'fields')
  if (typeof fields !== 'object' || fields === null)
    throw new Error('the input of an endpoint must be a struct')
  return fields as InputFields
}

/** The names of the path parameters, such as `id` of `/v1/messages/:id`. */
export const pathParameters = (path: string): ReadonlyArray<string> =>
  [...path.matchAll(/:(\w+)/gu)].map(([, name = '']) => name)

const isNullable = (field: Schema.Codec<unknown, unknown>): boolean => Schema.is(field)(null)

/** The field without `null`: what a client sends, if it sends the parameter. */
export const sentField = (field: Schema.Codec<unknown, unknown>): Schema.Codec<unknown, unknown> => {
  const members: unknown = Reflect.get(field, 'members')
  if (!isNullable(field) || !Array.isArray(members)) return field
  const others = (members as ReadonlyArray<Schema.Codec<unknown, unknown>>).filter(
    (member) => !isNullable(member),
  )
  return others.length === 1 ? others[0]! : Schema.Union(others)
}

export const mayBeAbsent = (
  name: string,
  field: Schema.Codec<unknown, unknown>,
  defaults: Readonly<Record<string, unknown>>,
): boolean => Object.hasOwn(defaults, name) || isNullable(field)

/** The type of the JSON that a field is sent as. */
const jsonTypeOf = (field: Schema.Codec<unknown, unknown>): string =>
  SchemaAST.toEncoded(Schema.toCodecJson(sentField(field)).ast)._tag

/** The texts of a query as the JSON type of their field. A text that does not fit stays, and fails later. */
const fromTexts = (jsonType: string, texts: ReadonlyArray<string>): unknown => {
  const text = texts[0] ?? ''
  if (jsonType === 'Arrays') return texts
  if (jsonType === 'Number' && /^-?\d{1,15}(?:\.\d{1,6})?$/u.test(text)) return Number(text)
  if (jsonType === 'Boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

/** What is wrong, for people. The text of a schema never contains the value of the request. */
const describe = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    switch (issue._tag) {
      case 'MissingKey':
        return 'is missing'
      case 'UnexpectedKey':
        return 'is not known here'
      default:
        return SchemaIssue.defaultLeafHook(issue)
    }
  },
})

const sentence = (param: string, message: string): string => {
  const text = message.charAt(0).toLowerCase() + message.slice(1)
  return text.startsWith('is ') ? `${param} ${text}.` : `${param} is not valid: ${text.replace(/\.$/u, '')}.`
}

const pathText = (path: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined): string =>
  (path ?? [])
    .map((segment) => (typeof segment === 'object' ? segment.key : segment))
    .reduce<string>(
      (text, key) =>
        typeof key === 'number' ? `${text}[${key}]` : text === '' ? String(key) : `${text}.${String(key)}`,
      '',
    )

/** Longer names are not of this API, and are not repeated. */
const MAX_NAME_LENGTH = 64
/** A name without a number of a person: letters, underscores and indexes. */
const NAME = /^[A-Za-z_][A-Za-z0-9_.[\]]*$/u

const nameToShow = (name: string): string =>
  name.length <= MAX_NAME_LENGTH && NAME.test(name) && !/\d{5}/u.test(name) ? name : 'a parameter'

/** A decoder of JSON for one input schema. `path`: of the input in the request; '' for the whole request. */
export const makeJsonDecoder = (input: Schema.Codec<unknown, unknown>, path = '') => {
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(input), { onExcessProperty: 'error' })
  return (value: unknown): Effect.Effect<unknown, ApiFailure> =>
    Effect.mapError(decode(value), (error) => {
      const [first] = describe(error.issue).issues
      const at = [path, pathText(first?.path)].filter((part) => part !== '').join('.')
      const param = nameToShow(at || 'body')
      return invalidParameter(param, sentence(param, first?.message ?? 'is not valid'))
    })
}

/** PostgreSQL has no NUL in a text. `parseBodyAsSent` refuses it in a body. */
const hasNul = (texts: ReadonlyArray<string>): boolean => texts.some((text) => text.includes('\0'))

/** A decoder of requests for one input schema. */
export const makeInputDecoder = (
  input: Schema.Codec<unknown, unknown>,
  path: string,
  readsBody: boolean,
  defaults: Readonly<Record<string, unknown>>,
) => {
  const fields = fieldsOf(input)
  const jsonTypes = new Map(Object.entries(fields).map(([name, field]) => [name, jsonTypeOf(field)]))
  const nullable = Object.keys(fields).filter((name) => isNullable(fields[name]!))
  const inPath = new Set(pathParameters(path))
  const absent = { ...Object.fromEntries(nullable.map((name) => [name, null])), ...defaults }
  const decode = makeJsonDecoder(input)

  return ({ body, params, query }: RequestInput): Effect.Effect<unknown, ApiFailure> => {
    const values: Record<string, unknown> = {}
    for (const name of inPath) {
      values[name] = params[name] ?? ''
      if (hasNul([params[name] ?? ''])) return Effect.fail(invalidParameter(name, `${name} contains a NUL.`))
    }
    const sent = readsBody ? Object.keys(body ?? {}) : [...query.keys()]
    for (const name of sent) {
      if (!Object.hasOwn(fields, name) || inPath.has(name)) {
        const shown = nameToShow(name)
        return Effect.fail(invalidParameter(shown, sentence(shown, 'is not known here')))
      }
      const texts = query.getAll(name)
      if (hasNul(texts)) return Effect.fail(invalidParameter(name, `${name} contains a NUL.`))
      if (readsBody) values[name] = body?.[name]
      else {
        values[name] = fromTexts(jsonTypes.get(name) ?? '', texts)
        if (texts.length > 1 && !Array.isArray(values[name])) {
          return Effect.fail(invalidParameter(name, `${name} is there more than once.`))
        }
      }
    }
    const unknownQuery = readsBody ? query.keys().next().value : undefined
    if (unknownQuery !== undefined) {
      const shown = nameToShow(unknownQuery)
      return Effect.fail(invalidParameter(shown, `${shown} belongs in the body.`))
    }
    return decode({ ...absent, ...values })
  }
}
