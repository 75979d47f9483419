/** How the messages of each template of an account end, and how long they take. */
import { MESSAGE_CLASSES, MODES } from '@hub/domain'
import { ReadDailyStats, ReadMessages, uuidOf } from '@hub/store'
import { Effect, Schema } from 'effect'
import { refused } from '../failures.ts'
import { Day, publicId } from '../fields.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'

const IncludedDay = Day.annotate({ description: 'A day in UTC, included.', examples: ['2026-11-21'] })

const Milliseconds = Schema.NullOr(Schema.Int)

const TemplatePerformance = Schema.Struct({
  template: Schema.String,
  class: Schema.Literals(MESSAGE_CLASSES),
  accepted: Schema.Int,
  delivered: Schema.Int,
  failed: Schema.Int.annotate({ description: 'Undelivered, rejected and expired.' }),
  failure_rate: Schema.NullOr(Schema.Number).annotate({
    description: 'Failed among delivered and failed messages; `null` without any.',
  }),
  measured: Schema.Int.annotate({
    description: `Messages of the latencies: the newest delivered ones, at most ${ReadMessages.MEASURED}.`,
  }),
  sent_p50_ms: Milliseconds.annotate({
    description: 'From the acceptance to the answer of the SMS operator.',
  }),
  sent_p99_ms: Milliseconds,
  delivered_p50_ms: Milliseconds.annotate({ description: 'From the acceptance to the delivery.' }),
  delivered_p99_ms: Milliseconds,
}).annotate({ identifier: 'TemplatePerformance' })

/** Templates of one answer: those with the most messages. */
const MOST_TEMPLATES = 50
const MOST_DAYS = 93
const DAY_MS = 86_400_000

export const templates = defineUseCase({
  name: 'usage templates',
  permission: 'usage.read',
  members: 'named',
  input: Schema.Struct({
    account: publicId('acc'),
    mode: Schema.Literals(MODES),
    from: IncludedDay,
    to: IncludedDay,
  }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(TemplatePerformance) }),
  audit: null,
  run: ({ account, from, mode, to }) =>
    Effect.gen(function* () {
      const days = (Date.parse(to) - Date.parse(from)) / DAY_MS
      if (!(days >= 0 && days < MOST_DAYS)) {
        return yield* refused('period_invalid', `The period has 1 to ${MOST_DAYS} days.`, 'to')
      }
      const owner = { account: uuidOf('acc', account), mode }
      const counts = yield* query((q) =>
        ReadDailyStats.readTemplates(q, { ...owner, from, to, limit: MOST_TEMPLATES }),
      )
      const data = yield* Effect.forEach(counts, (row) =>
        Effect.map(
          query((q) => ReadMessages.readLatencies(q, owner, row.template, from, to)),
          (latencies) => {
            const [accepted, delivered, failed] = [row.accepted, row.delivered, row.failed].map(Number) as [
              number,
              number,
              number,
            ]
            const ended = delivered + failed
            return {
              template: row.template,
              class: row.class,
              accepted,
              delivered,
              failed,
              failure_rate: ended === 0 ? null : failed / ended,
              ...latencies,
            }
          },
        ),
      )
      return { object: 'list' as const, data }
    }),
})
