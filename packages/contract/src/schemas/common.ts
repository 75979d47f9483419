/** Schemas of several resources: times, enumerations, money, list and error envelopes. */
import { MESSAGE_CLASSES, MODES, REASON_CODES, STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import { ERROR_CODES, FLOOD_WINDOWS } from '../errors.ts'
import { DATE_PATTERN, TIMESTAMP_PATTERN } from '../limits.ts'
import { anyId, AT, atLeast, constant, DOCS, REQUEST_ID } from './fields.ts'

/**
 * UTC, ISO 8601 with milliseconds and a trailing Z. A moment that a client sends has no format: `date-time` would
 * promise forms that the hub refuses, such as one with another offset. Source: GEN-5.
 */
export const TimestampToSend = Schema.String.check(Schema.isPattern(TIMESTAMP_PATTERN)).annotate({
  description: 'A moment in UTC, ISO 8601 with milliseconds and a trailing Z.',
  examples: [AT],
})

/** As the hub sends it. */
export const Timestamp = TimestampToSend.annotate({ format: 'date-time' })

export const moment = (description: string) => Timestamp.annotate({ description })

/** Without a format: the contract gate takes one for a narrower parameter. */
export const DayToSend = Schema.String.check(Schema.isPattern(DATE_PATTERN)).annotate({
  description: 'A day in UTC.',
  examples: ['2026-11-21'],
})

/** As the hub sends it. */
export const Day = DayToSend.annotate({ format: 'date' })

export const Mode = Schema.Literals(MODES).annotate({
  description: '`live`, or `test` for the sandbox. It follows from the API key.',
})

export const MessageClass = Schema.Literals(MESSAGE_CLASSES).annotate({
  description: 'Traffic class: `otp` for one-time codes, `service` for service messages.',
})

export const MessageStatus = Schema.Literals(STATUSES).annotate({
  description:
    '`accepted`: not yet handed to the operator. `sent`: handed over. `delivered`, `undelivered`, `rejected`, `expired`: final.',
})

export const ReasonCode = Schema.NullOr(Schema.Literals(REASON_CODES)).annotate({
  description:
    'Why the message failed or expired; `null` otherwise. `dlr_timeout`: retry later. `dlr_timeout_local`: it may have arrived, ' +
    'wait for a late report. `ttl_expired_before_submit`: never handed over, a resend is safe.',
})

/** A decimal string with its currency, never a float. */
export const Money = Schema.Struct({
  amount: Schema.String.check(Schema.isPattern(/^[0-9]+\.[0-9]{2}$/u)).annotate({
    description: 'Decimal number with two fraction digits, as a string.',
    examples: ['12.50'],
  }),
  currency: Schema.String.check(Schema.isPattern(/^[A-Z]{3}$/u)).annotate({
    description: 'ISO 4217 code.',
    examples: ['RUB'],
  }),
}).annotate({ identifier: 'Money', title: 'Money', description: 'An amount of money.' })

/** The list envelope of `items`; `name` is the schema name in the API description. */
export const listOf = <S extends Schema.Top>(items: S, name: string, order: string) =>
  Schema.Struct({
    object: constant('list'),
    data: Schema.Array(items).annotate({ description: `The page, ${order}.` }),
    has_more: Schema.Boolean.annotate({ description: 'True when there is something after this page.' }),
    next_cursor: Schema.NullOr(Schema.String).annotate({
      description:
        'What to send as `starting_after` for the next page, now or later: the last id of this page. On an empty page the ' +
        '`starting_after` that was sent, else `null`.',
    }),
  }).annotate({
    identifier: name,
    title: name.replaceAll(/(?<=[a-z])[A-Z]/gu, (letter) => ` ${letter.toLowerCase()}`),
    description: 'A page of a list.',
  })

/** The `error` member of the error envelope and of a rejected batch element. */
export const ErrorDetail = Schema.Struct({
  code: Schema.Literals(ERROR_CODES).annotate({
    description:
      'What went wrong, for programs. New codes may be added: treat an unknown one by its HTTP status.',
  }),
  message: Schema.String.annotate({ description: 'What went wrong and what to do, for people.' }),
  param: Schema.optionalKey(
    Schema.String.annotate({
      description: 'The offending parameter, as a path.',
      examples: ['to', 'messages[3].to', 'variables.code'],
    }),
  ),
  request_id: anyId('req_').annotate({
    description: 'The same as in the `Request-Id` header. Tell it to support.',
  }),
  retry_after: Schema.optionalKey(
    atLeast(1).annotate({
      description:
        'Whole seconds to wait before a retry. The `Retry-After` header repeats it, but for an element of a batch.',
    }),
  ),
  window: Schema.optionalKey(
    Schema.Literals(FLOOD_WINDOWS).annotate({
      description: 'With `recipient_flood_limited`: the window that tripped first.',
    }),
  ),
  outcome: Schema.optionalKey(
    Schema.Literal('unknown').annotate({
      description:
        'Only in a send or a batch. `unknown`: PostgreSQL or Kafka stopped answering while the hub recorded the message, so it may ' +
        'still be sent. Repeat with the same `client_ref` or `Idempotency-Key`: the answer is the outcome of the first request. ' +
        'Without this member nothing that the error concerns is ever sent.',
    }),
  ),
  doc_url: Schema.String.annotate({ description: 'Where this code is described.', format: 'uri' }),
}).annotate({ identifier: 'ErrorDetail', title: 'Error detail', description: 'What went wrong.' })

export const ErrorBody = Schema.Struct({ error: ErrorDetail }).annotate({
  identifier: 'Error',
  title: 'Error',
  description: 'The body of every answer with a status of 400 or above.',
  examples: [
    {
      error: {
        code: 'recipient_invalid',
        message: 'The number must be in E.164 form: +79 and nine digits, nothing else.',
        param: 'to',
        request_id: REQUEST_ID,
        doc_url: `${DOCS}#recipient_invalid`,
      },
    },
  ],
})
export type ErrorBody = typeof ErrorBody.Type
