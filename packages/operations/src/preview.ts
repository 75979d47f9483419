/**
 * The preview of a template for moderators: its text with example values, and the number of parts.
 * Pure.
 */
import {
  countParts,
  type PartCount,
  parseTemplate,
  render,
  TEXT_MAX_PARTS,
  VARIABLE_MAX_LENGTH,
} from '@hub/domain'
import { Result, Schema } from 'effect'

const Count = {
  encoding: Schema.Literals(['gsm7', 'ucs2']),
  characters: Schema.Int.annotate({ description: 'Septets, or UTF-16 code units of `ucs2`.' }),
  parts: Schema.Int,
}

export const Preview = Schema.Struct({
  text: Schema.String.annotate({ description: 'The text with the example values.' }),
  ...Count,
  examples: Schema.Record(Schema.String, Schema.String).annotate({
    description: 'The example value of each placeholder.',
  }),
  parts_at_least: Schema.Int.annotate({ description: 'With empty values.' }),
  parts_at_most: Schema.Int.annotate({
    description: `With the longest values that a send may have (${VARIABLE_MAX_LENGTH} characters), and at most ${TEXT_MAX_PARTS}: the hub refuses longer texts.`,
  }),
}).annotate({ identifier: 'Preview' })
export type Preview = typeof Preview.Type

/** Typical values by a word in the name of the placeholder, the first that matches. */
const EXAMPLES: ReadonlyArray<readonly [RegExp, string]> = [
  [/code|pin|otp|token/iu, '4821'],
  [/link|url/iu, 'https://example.com/a1b2'],
  [/phone|mobile/iu, '8 800 000-00-00'],
  [/date|day/iu, '21.11.2026'],
  [/time|hour|until/iu, '20:00'],
  [/sum|amount|price|total|balance|cost/iu, '1 500'],
  [/name|client|customer|user/iu, 'Anna'],
  [/address|street|city/iu, 'Lenina 1'],
  [/order|number|num|id|count|days/iu, '1001'],
]

/** Values of other placeholders are visible as such. */
const exampleOf = (name: string): string =>
  EXAMPLES.find(([pattern]) => pattern.test(name))?.[1] ?? `[${name}]`

/** The parts of a text that may be too long for a send. */
const partsWith = (literals: ReadonlyArray<string>, value: string): PartCount =>
  countParts(literals.join(value))

/** `null`: the body is no template. The API refuses such a body, so only old rows have one. */
export const previewOf = (body: string): Preview | null => {
  const template = parseTemplate(body)
  if (Result.isFailure(template)) return null
  const { literals, names } = template.success
  const examples = Object.fromEntries([...names].map((name) => [name, exampleOf(name)]))
  const rendered = render(template.success, examples)
  if (Result.isFailure(rendered)) return null
  const { characters, encoding, parts, text } = rendered.success
  const longest = partsWith(literals, 'x'.repeat(VARIABLE_MAX_LENGTH))
  return {
    text,
    encoding,
    characters,
    parts,
    examples,
    parts_at_least: partsWith(literals, '').parts,
    parts_at_most: Math.min(longest.parts, TEXT_MAX_PARTS),
  }
}
