/** Checks the form of templates to create and of previews. */
import { hasControlCharacters, type MessageClass, parseTemplate } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import type { JsonObject } from '../json.ts'
import {
  LANGUAGE_PATTERN,
  MAX_LANGUAGE_LENGTH,
  MAX_TEMPLATE_BODY_LENGTH,
  TEMPLATE_NAME_PATTERN,
} from '../limits.ts'
import {
  CLASS_RULE,
  isJsonObject,
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
  /** A valid template text. */
  readonly body: string
  readonly language: string | null
}

const CONTROL_RULE = 'This field is a text without control characters other than line feed.'
const BODY_RULE = `A template body is a text of 1 to ${MAX_TEMPLATE_BODY_LENGTH} characters without control characters other than line feed.`
const LANGUAGE_RULE = 'A language is a BCP 47 tag such as "ru" or "en-GB".'
/**
 * Checks the body of a template creation: `name`, `class`, `sender`, `body`, `language`. Fails with
 * `invalid_parameter`, or with `template_invalid` if a `{{` in the body starts no placeholder.
 * Unknown fields are ignored. Source: contract decisions, "lengths" and Templates and senders.
 */
export const decodeTemplateCreate = (object: JsonObject): Result.Result<TemplateToCreate, ApiError> => {
  const name = member(object, 'name')
  if (typeof name !== 'string') return refuse('invalid_parameter', 'name', REQUIRED_STRING)
  if (!TEMPLATE_NAME_PATTERN.test(name)) return refuse('invalid_parameter', 'name', TEMPLATE_RULE)

  const messageClass = member(object, 'class')
  if (typeof messageClass !== 'string' || !isMessageClass(messageClass)) {
    return refuse('invalid_parameter', 'class', CLASS_RULE)
  }

  const sender = member(object, 'sender')
  if (typeof sender !== 'string') return refuse('invalid_parameter', 'sender', REQUIRED_STRING)
  if (hasControlCharacters(sender)) return refuse('invalid_parameter', 'sender', CONTROL_RULE)

  const body = member(object, 'body')
  if (typeof body !== 'string') return refuse('invalid_parameter', 'body', REQUIRED_STRING)
  if (body === '' || !isWithin(body, MAX_TEMPLATE_BODY_LENGTH) || hasControlCharacters(body)) {
    return refuse('invalid_parameter', 'body', BODY_RULE)
  }
  if (Result.isFailure(parseTemplate(body))) return refuse('template_invalid')

  const language = member(object, 'language')
  if (
    language !== undefined &&
    (typeof language !== 'string' ||
      language.length > MAX_LANGUAGE_LENGTH ||
      !LANGUAGE_PATTERN.test(language))
  ) {
    return refuse('invalid_parameter', 'language', LANGUAGE_RULE)
  }

  return Result.succeed({ name, class: messageClass, sender, body, language: language ?? null })
}

/**
 * Checks the body of a preview: `variables`, which is optional. Fails with `invalid_parameter`.
 * Rendering checks the values. Source: contract decisions, Templates and senders.
 */
export const decodeRender = (object: JsonObject): Result.Result<JsonObject, ApiError> => {
  const variables = member(object, 'variables')
  if (variables === undefined) return Result.succeed(NO_VARIABLES)
  if (!isJsonObject(variables)) return refuse('invalid_parameter', 'variables', VARIABLES_RULE)
  return Result.succeed(variables)
}
