/** Checks the form of templates to create and of previews. */
import { foreignPlaceholders, hasControlCharacters, type MessageClass, parseTemplate } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { isJsonObject, type JsonObject } from '../json.ts'
import {
  LANGUAGE_PATTERN,
  MAX_LANGUAGE_LENGTH,
  MAX_TEMPLATE_BODY_LENGTH,
  TEMPLATE_NAME_PATTERN,
} from '../limits.ts'
import {
  CLASS_RULE,
  invalid,
  isMessageClass,
  isWithin,
  member,
  NO_VARIABLES,
  refuse,
  REQUIRED_STRING,
  TEMPLATE_RULE,
  VARIABLES_RULE,
} from './checks.ts'

/** A request to create a template. Later checks look up its name and sender. */
export interface TemplateToCreate {
  readonly name: string
  readonly class: MessageClass
  /** Any text. If the account has no such sender, the handler answers `sender_not_registered`. */
  readonly sender: string
  readonly body: string
  readonly language: string | null
}

const CONTROL_RULE = 'This field is a text without control characters other than line feed.'
const BODY_RULE = `A template body is a text of 1 to ${MAX_TEMPLATE_BODY_LENGTH} characters without control characters other than line feed.`
const LANGUAGE_RULE = 'A language is a BCP 47 tag such as "ru" or "en-GB".'
/**
 * Checks the body of a template creation: `name`, `class`, `sender`, `body`, `language`. Fails with
 * `invalid_parameter`, or with `template_invalid` if a `{{` in the body starts no placeholder.
 * Unknown fields are ignored. Source: TPL-1 to TPL-4.
 */
export const decodeTemplateCreate = (object: JsonObject): Result.Result<TemplateToCreate, ApiError> => {
  const name = member(object, 'name')
  if (typeof name !== 'string') return invalid('name', REQUIRED_STRING)
  if (!TEMPLATE_NAME_PATTERN.test(name)) return invalid('name', TEMPLATE_RULE)

  const messageClass = member(object, 'class')
  if (typeof messageClass !== 'string' || !isMessageClass(messageClass)) return invalid('class', CLASS_RULE)

  const sender = member(object, 'sender')
  if (typeof sender !== 'string') return invalid('sender', REQUIRED_STRING)
  if (hasControlCharacters(sender)) return invalid('sender', CONTROL_RULE)

  const body = member(object, 'body')
  if (typeof body !== 'string') return invalid('body', REQUIRED_STRING)
  if (body === '' || !isWithin(body, MAX_TEMPLATE_BODY_LENGTH) || hasControlCharacters(body)) {
    return invalid('body', BODY_RULE)
  }
  if (Result.isFailure(parseTemplate(body))) return refuse('template_invalid')

  const language = member(object, 'language')
  if (
    language !== undefined &&
    (typeof language !== 'string' ||
      language.length > MAX_LANGUAGE_LENGTH ||
      !LANGUAGE_PATTERN.test(language))
  ) {
    return invalid('language', LANGUAGE_RULE)
  }

  return Result.succeed({ name, class: messageClass, sender, body, language: language ?? null })
}

/**
 * Warnings about a template to create. A name in single braces is text, and is probably meant as a
 * placeholder. Source: TPL-10.
 */
export const templateWarnings = (object: JsonObject): ReadonlyArray<string> =>
  Result.match(
    Result.flatMap(decodeTemplateCreate(object), ({ body }) => parseTemplate(body)),
    {
      onFailure: () => [],
      onSuccess: (parsed) =>
        foreignPlaceholders(parsed).map(
          (text) => `"${text}" in the body is sent as it is; a placeholder has double braces`,
        ),
    },
  )

/** Checks the body of a preview: optional `variables`. Rendering checks their values. */
export const decodeRender = (object: JsonObject): Result.Result<JsonObject, ApiError> => {
  const variables = member(object, 'variables')
  if (variables === undefined) return Result.succeed(NO_VARIABLES)
  if (!isJsonObject(variables)) return invalid('variables', VARIABLES_RULE)
  return Result.succeed(variables)
}
