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
  CLASS_WORDS,
  isJsonObject,
  isMessageClass,
  isWithin,
  member,
  NO_VARIABLES,
  refuse,
  REQUIRED_STRING,
  TEMPLATE_WORDS,
  VARIABLES_WORDS,
} from './checks.ts'

/** A template to create whose own form is right. Whether its name is free and its sender exists comes later. */
export interface TemplateToCreate {
  readonly name: string
  readonly class: MessageClass
  /** Any text: one that names no sender of the account is `sender_not_registered`, `param` `sender`. */
  readonly sender: string
  /** Parses as a template. */
  readonly body: string
  readonly language: string | null
}

const CONTROL_WORDS = 'This field is a text without control characters other than line feed.'
const BODY_WORDS = `A template body is a text of 1 to ${MAX_TEMPLATE_BODY_LENGTH} characters without control characters other than line feed.`
const LANGUAGE_WORDS = 'A language is a BCP 47 tag such as "ru" or "en-GB".'
/**
 * The form of a template to create: `name`, `class`, `sender`, `body`, `language`. Fails with `invalid_parameter`,
 * or with `template_invalid` where `{{` in the body is no placeholder. Unknown fields are ignored.
 *
 * Source: contract decisions, "lengths" and Templates and senders.
 */
export const decodeTemplateCreate = (object: JsonObject): Result.Result<TemplateToCreate, ApiError> => {
  const name = member(object, 'name')
  if (typeof name !== 'string') return refuse('invalid_parameter', 'name', REQUIRED_STRING)
  if (!TEMPLATE_NAME_PATTERN.test(name)) return refuse('invalid_parameter', 'name', TEMPLATE_WORDS)

  const messageClass = member(object, 'class')
  if (typeof messageClass !== 'string' || !isMessageClass(messageClass)) {
    return refuse('invalid_parameter', 'class', CLASS_WORDS)
  }

  const sender = member(object, 'sender')
  if (typeof sender !== 'string') return refuse('invalid_parameter', 'sender', REQUIRED_STRING)
  if (hasControlCharacters(sender)) return refuse('invalid_parameter', 'sender', CONTROL_WORDS)

  const body = member(object, 'body')
  if (typeof body !== 'string') return refuse('invalid_parameter', 'body', REQUIRED_STRING)
  if (body === '' || !isWithin(body, MAX_TEMPLATE_BODY_LENGTH) || hasControlCharacters(body)) {
    return refuse('invalid_parameter', 'body', BODY_WORDS)
  }
  if (Result.isFailure(parseTemplate(body))) return refuse('template_invalid')

  const language = member(object, 'language')
  if (
    language !== undefined &&
    (typeof language !== 'string' ||
      language.length > MAX_LANGUAGE_LENGTH ||
      !LANGUAGE_PATTERN.test(language))
  ) {
    return refuse('invalid_parameter', 'language', LANGUAGE_WORDS)
  }

  return Result.succeed({ name, class: messageClass, sender, body, language: language ?? null })
}

/**
 * The form of a preview: `variables`, which may be absent. Fails with `invalid_parameter`. The values are checked when the
 * template is rendered. Source: contract decisions, Templates and senders.
 */
export const decodeRender = (object: JsonObject): Result.Result<JsonObject, ApiError> => {
  const variables = member(object, 'variables')
  if (variables === undefined) return Result.succeed(NO_VARIABLES)
  if (!isJsonObject(variables)) return refuse('invalid_parameter', 'variables', VARIABLES_WORDS)
  return Result.succeed(variables)
}
