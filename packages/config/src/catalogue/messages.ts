/** The settings of messages: lifetimes and report deadlines, for each class. */
import * as kind from '../kinds.ts'
import { type Reader, withDefault, inGroup } from '../setting.ts'

const READERS: ReadonlyArray<Reader> = ['command-api', 'dispatcher', 'hubctl']

/** A shorter lifetime would end many messages before an operator has answered. */
export const SHORTEST_LIFETIME_SECONDS = 30

/**
 * A message can be submitted and projected only while its payload key exists. Kafka keeps the key of
 * a code at least 30 minutes after its last use, and the key of another message at least 24 hours
 * (`PAYLOAD_KEY_PERIODS` of `@hub/kafka`).
 */
export const LONGEST_LIFETIME_SECONDS = { otp: 10 * 60, service: 24 * 3600 } as const

/** Open messages take memory and log records. Operator ids, which match reports, live 90 days. */
const LONGEST_REPORT_DEADLINE_SECONDS = 7 * 24 * 3600

/**
 * A code is useless after five minutes. Another message is useful for a day. Operators try to
 * deliver for the whole lifetime and report then, so the report deadlines are later.
 */
export const messages = inGroup('messages', {
  lifetimeOtp: withDefault(kind.integer(SHORTEST_LIFETIME_SECONDS, LONGEST_LIFETIME_SECONDS.otp), '300', {
    name: 'HUB_LIFETIME_OTP_SECONDS',
    unit: 'seconds',
    readBy: READERS,
    doc: 'The time from the acceptance of a code (`otp`) to its latest submit. Messages that are already accepted keep their lifetime.',
  }),
  lifetimeService: withDefault(
    kind.integer(SHORTEST_LIFETIME_SECONDS, LONGEST_LIFETIME_SECONDS.service),
    '86400',
    {
      name: 'HUB_LIFETIME_SERVICE_SECONDS',
      unit: 'seconds',
      readBy: READERS,
      doc: 'The same for a message of class `service`.',
    },
  ),
  reportDeadlineOtp: withDefault(
    kind.integer(SHORTEST_LIFETIME_SECONDS, LONGEST_REPORT_DEADLINE_SECONDS),
    '900',
    {
      name: 'HUB_REPORT_DEADLINE_OTP_SECONDS',
      unit: 'seconds',
      readBy: READERS,
      doc: 'The time from the submit of a code to its latest delivery report. Then the code expires with `dlr_timeout_local`. Messages that are already submitted keep their deadline.',
    },
  ),
  reportDeadlineService: withDefault(
    kind.integer(SHORTEST_LIFETIME_SECONDS, LONGEST_REPORT_DEADLINE_SECONDS),
    '93600',
    {
      name: 'HUB_REPORT_DEADLINE_SERVICE_SECONDS',
      unit: 'seconds',
      readBy: READERS,
      doc: 'The same for a message of class `service`. Dispatchers keep submitted messages in memory until their report or this deadline.',
    },
  ),
})
