/**
 * Generates the types of the Python client from the API description: a TypedDict for each object, and one for the
 * query of each operation.
 *
 *   node scripts/run.mjs scripts/python-types.ts           writes the file
 *   node scripts/run.mjs scripts/python-types.ts --check   fails if the file is not current
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const DESCRIPTION = 'packages/contract/openapi.json'
const TARGET = 'clients/python/src/sms_delivery_hub/contract.py'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: ReadonlyArray<string | number | boolean>
  readonly anyOf?: ReadonlyArray<Schema>
  readonly oneOf?: ReadonlyArray<Schema>
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: ReadonlyArray<string>
  readonly additionalProperties?: Schema | boolean
  readonly title?: string
  readonly description?: string
}

interface Operation {
  readonly operationId: string
  readonly parameters?: ReadonlyArray<{
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema: Schema
  }>
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }
}

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** Keys of objects that are keywords of Python cannot be attributes of a class. */
const KEYWORDS: ReadonlySet<string> = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from ' +
    'global if import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
)
const isAttribute = (key: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/u.test(key) && !KEYWORDS.has(key)

const PRIMITIVES: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'float',
  boolean: 'bool',
  null: 'None',
}

const literal = (value: string | number | boolean): string =>
  typeof value === 'boolean' ? (value ? 'True' : 'False') : JSON.stringify(value)

const inPascalCase = (name: string): string =>
  name.replaceAll(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/gu, (_, letter: string) => letter.toUpperCase())

const docstring = (text: string | undefined, indent: string): ReadonlyArray<string> =>
  text === undefined
    ? []
    : [`${indent}"""${text.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"').replace(/"$/u, '\\"')}"""`]

/** The definitions of a Python module, in the order in which they must be evaluated. */
class Module {
  readonly #classes: Array<string> = []
  readonly #aliases: Array<string> = []
  readonly #names = new Set<string>()

  /** Defines the type of a schema under a name. */
  define(name: string, schema: Schema): void {
    if (schema.properties !== undefined) return this.#object(name, schema)
    const type = this.#typeOf(schema, name)
    this.#claim(name)
    this.#aliases.push(`${name} = ${type}`, ...docstring(schema.description, ''), '')
  }

  text(): string {
    return [...this.#classes, ...this.#aliases].join('\n')
  }

  #claim(name: string): void {
    if (this.#names.has(name)) throw new Error(`Two types have the name ${name}.`)
    this.#names.add(name)
  }

  /** `place`: the name of an object that has none. */
  #typeOf(schema: Schema, place: string): string {
    if (schema.$ref !== undefined) return schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1)
    if (schema.enum !== undefined) return `Literal[${schema.enum.map(literal).join(', ')}]`
    const choices = schema.anyOf ?? schema.oneOf
    if (choices !== undefined) {
      const types = new Set(choices.map((choice, index) => this.#typeOf(choice, `${place}${index + 1}`)))
      return `Union[${[...types].join(', ')}]`
    }
    if (schema.type === 'array' && schema.items !== undefined) {
      return `Sequence[${this.#typeOf(schema.items, `${place}Item`)}]`
    }
    if (schema.type === 'object') {
      if (schema.properties !== undefined) {
        this.#object(place, schema)
        return place
      }
      const { additionalProperties: values } = schema
      return `Mapping[str, ${typeof values === 'object' ? this.#typeOf(values, `${place}Value`) : 'object'}]`
    }
    const primitive = PRIMITIVES[schema.type ?? '']
    if (primitive === undefined) throw new Error(`${place} has an unknown form: ${JSON.stringify(schema)}`)
    return primitive
  }

  #object(name: string, schema: Schema): void {
    const required = new Set(schema.required)
    const fields = Object.entries(schema.properties ?? {}).map(([key, of]) => ({
      key,
      type: this.#typeOf(of, `${name}${inPascalCase(key)}`),
      description: of.description,
      isRequired: required.has(key),
    }))
    this.#claim(name)
    const bases: Array<string> = []
    const add = (base: string, isTotal: boolean): void => {
      const some = fields.filter(({ isRequired, key }) => isRequired === isTotal && !isAttribute(key))
      if (some.length === 0) return
      const items = some.map(({ key, type }) => `"${key}": '${type}'`).join(', ')
      const total = isTotal ? '' : ', total=False'
      this.#classes.push(`${base} = TypedDict("${base}", {${items}}${total})`, '', '')
      bases.push(base)
    }
    add(`_${name}RequiredKeywords`, true)
    add(`_${name}OptionalKeywords`, false)
    const attributes = fields.filter(({ key }) => isAttribute(key))
    const bodyOf = (some: typeof attributes): ReadonlyArray<string> =>
      some.flatMap(({ description, key, type }) => [`    ${key}: ${type}`, ...docstring(description, '    ')])
    const ofRequired = attributes.filter(({ isRequired }) => isRequired)
    const ofOptional = attributes.filter(({ isRequired }) => !isRequired)
    const isSplit = ofRequired.length > 0 && ofOptional.length > 0
    if (isSplit) {
      const base = `_${name}Required`
      this.#classes.push(`class ${base}(TypedDict):`, ...bodyOf(ofRequired), '', '')
      bases.push(base)
    }
    const own = isSplit || ofRequired.length === 0 ? ofOptional : ofRequired
    const isTotal = own === ofRequired
    const head = [...(bases.length === 0 ? ['TypedDict'] : bases), ...(isTotal ? [] : ['total=False'])]
    const body = [...docstring(schema.description, '    '), ...bodyOf(own)]
    this.#classes.push(
      `class ${name}(${head.join(', ')}):`,
      ...(body.length === 0 ? ['    pass'] : body),
      '',
      '',
    )
  }
}

const generate = ({ components, paths }: Description): string => {
  const module = new Module()
  for (const [name, schema] of Object.entries(components.schemas)) module.define(name, schema)
  for (const operation of Object.values(paths).flatMap((path) => Object.values(path))) {
    const query = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query')
    if (query.length > 0) {
      module.define(`${inPascalCase(operation.operationId)}Query`, {
        type: 'object',
        description: `The query of \`${operation.operationId}\`.`,
        properties: Object.fromEntries(
          query.map(({ description, name, schema }) => [
            name,
            description === undefined ? schema : { ...schema, description },
          ]),
        ),
        required: query.filter(({ required }) => required === true).map(({ name }) => name),
      })
    }
    const body = operation.requestBody?.content['application/json']?.schema
    if (body?.title !== undefined && body.properties !== undefined) {
      module.define(inPascalCase(body.title), body)
    }
  }
  return `# Generated by scripts/python-types.ts from ${DESCRIPTION}; not to be edited.
"""
The types of requests and answers. An answer can have more keys than these, and other texts where a type has \`\`str\`\`
beside its known values: the API adds them without notice.
"""

from __future__ import annotations

from typing import Literal, Mapping, Sequence, TypedDict, Union


${module.text().trimEnd()}
`
}

const text = generate(JSON.parse(readFileSync(join(ROOT, DESCRIPTION), 'utf8')) as Description)
if (process.argv.includes('--check')) {
  if (readFileSync(join(ROOT, TARGET), 'utf8') !== text) {
    console.error(`${TARGET} is not current: ${DESCRIPTION} has changed. Run: npm run generate`)
    process.exitCode = 1
  }
} else writeFileSync(join(ROOT, TARGET), text)
