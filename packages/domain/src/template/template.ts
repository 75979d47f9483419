/** Parses and renders templates with `{{name}}` placeholders. */
import { Data, Result } from 'effect'
import { characterCount, hasControlCharacters } from '../values/text.ts'
import { countParts, type PartCount } from '../sms/sms.ts'

/** 422 `template_invalid`. `offset` is in UTF-16 code units. */
class TemplateInvalid extends Data.TaggedError('TemplateInvalid')<{ readonly offset: number }> {
  readonly code = 'template_invalid'
  readonly param = 'body'
}
/** 422 `template_variable_missing`: a placeholder has no value. */
export class TemplateVariableMissing extends Data.TaggedError('TemplateVariableMissing')<{
  readonly param: string
}> {
  readonly code = 'template_variable_missing'
}
/** 422 `template_variable_unknown`: a value has no placeholder. */
export class TemplateVariableUnknown extends Data.TaggedError('TemplateVariableUnknown')<{
  readonly param: string
}> {
  readonly code = 'template_variable_unknown'
}
/** 422 `template_variable_invalid`: the type, length or characters are invalid. */
export class TemplateVariableInvalid extends Data.TaggedError('TemplateVariableInvalid')<{
  readonly param: string
  readonly reason: 'type' | 'length' | 'characters'
}> {
  readonly code = 'template_variable_invalid'
}
/** 422 `template_text_too_long`: the text has more than ten parts. */
export class TemplateTextTooLong extends Data.TaggedError('TemplateTextTooLong')<{ readonly parts: number }> {
  readonly code = 'template_text_too_long'
}
export type RenderError =
  | TemplateVariableMissing
  | TemplateVariableUnknown
  | TemplateVariableInvalid
  | TemplateTextTooLong

/** A parsed template. Literals and placeholders alternate, with a literal at both ends. */
export interface Template {
  readonly literals: ReadonlyArray<string>
  readonly placeholders: ReadonlyArray<string>
  /** The distinct names in order of first use. */
  readonly names: ReadonlySet<string>
}

/** A rendered text. `variables` are the names of the given values, sorted. */
export interface Rendered extends PartCount {
  readonly text: string
  readonly variables: ReadonlyArray<string>
}

/** The longest value of a variable, in characters. */
export const VARIABLE_MAX_LENGTH = 500
/** The most parts of a text. */
export const TEXT_MAX_PARTS = 10

const PLACEHOLDER = /\{\{ *([A-Za-z_][A-Za-z0-9_]{0,63}) *\}\}/y

/**
 * Parses the body of a template. A single brace is text, and so is `}}` outside a placeholder. `{{`
 * must begin a placeholder, so `{{{` is always an error.
 */
export const parseTemplate = (body: string): Result.Result<Template, TemplateInvalid> => {
  const literals: Array<string> = []
  const placeholders: Array<string> = []
  let from = 0
  for (;;) {
    const open = body.indexOf('{{', from)
    if (open === -1) break
    PLACEHOLDER.lastIndex = open
    const name = PLACEHOLDER.exec(body)?.[1]
    if (name === undefined) return Result.fail(new TemplateInvalid({ offset: open }))
    literals.push(body.slice(from, open))
    placeholders.push(name)
    from = PLACEHOLDER.lastIndex
  }
  literals.push(body.slice(from))
  return Result.succeed({ literals, placeholders, names: new Set(placeholders) })
}

/** A name in single braces, as other systems write placeholders. */
const SINGLE_BRACES = /\$?\{ *([A-Za-z_][A-Za-z0-9_]{0,63}) *\}/gu

/** What looks like a placeholder of another system, such as `${order}` or `{order}`, each once. */
export const foreignPlaceholders = ({ literals }: Template): ReadonlyArray<string> => [
  ...new Set(literals.flatMap((literal) => [...literal.matchAll(SINGLE_BRACES)].map(([found]) => found))),
]

/** Converts a value to text, or says why it is invalid. */
const valueText = (value: unknown, param: string): Result.Result<string, TemplateVariableInvalid> => {
  const invalid = (reason: TemplateVariableInvalid['reason']) =>
    Result.fail(new TemplateVariableInvalid({ param, reason }))
  // The JSON form of a number: `1e21` becomes `1e+21`, `-0` becomes `0`.
  if (typeof value === 'number')
    return Number.isFinite(value) ? Result.succeed(JSON.stringify(value)) : invalid('type')
  if (typeof value !== 'string') return invalid('type')
  if (value.length > VARIABLE_MAX_LENGTH && characterCount(value) > VARIABLE_MAX_LENGTH)
    return invalid('length')
  if (hasControlCharacters(value) || !value.isWellFormed()) return invalid('characters')
  return Result.succeed(value)
}

/**
 * Renders a template. `variables` is a parsed JSON object. Only its own properties count, so
 * `__proto__` and `constructor` are ordinary names. Values are inserted unchanged and are not
 * parsed as templates.
 *
 * Returns the first error: missing (in the template's order), unknown, invalid (both in the given
 * order), too long. `param` is `variables.<name>`. An error never contains a value.
 */
export const render = (
  template: Template,
  variables: Readonly<Record<string, unknown>>,
): Result.Result<Rendered, RenderError> => {
  for (const name of template.names) {
    if (!Object.hasOwn(variables, name))
      return Result.fail(new TemplateVariableMissing({ param: `variables.${name}` }))
  }
  const given = Object.keys(variables)
  for (const name of given) {
    if (!template.names.has(name))
      return Result.fail(new TemplateVariableUnknown({ param: `variables.${name}` }))
  }
  const values = new Map<string, string>()
  for (const name of given) {
    const value = valueText(variables[name], `variables.${name}`)
    if (Result.isFailure(value)) return Result.fail(value.failure)
    values.set(name, value.success)
  }
  let text = template.literals[0] ?? ''
  for (const [i, name] of template.placeholders.entries()) {
    text += (values.get(name) ?? '') + (template.literals[i + 1] ?? '')
  }
  const count = countParts(text)
  if (count.parts > TEXT_MAX_PARTS) return Result.fail(new TemplateTextTooLong({ parts: count.parts }))
  return Result.succeed({ text, ...count, variables: given.toSorted() })
}
