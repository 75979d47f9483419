import { describe, it } from 'vitest'
import { specificationOf } from '../testing/deciderSpecification.ts'
import { messageAccepted } from '../testing/message-accepted.ts'
import type { MessageCommand, ReportOutcome } from './command.ts'
import { decide } from './decide.ts'
import type { MessageError } from './errors.ts'
import { evolve } from './evolve.ts'
import {
  type ExpiredReason,
  type HandoverRefused,
  type HandoverStarted,
  type LogFact,
  type MessageFact,
  type MessageSent,
  type OpenMessageCarried,
  REJECTED_REASONS,
  type RejectedReason,
  UNDELIVERED_REASONS,
  type UndeliveredReason,
} from './fact.ts'
import type { MessageState } from './state.ts'

const given = specificationOf<MessageState | null, MessageCommand, MessageFact, MessageError>({
  initialState: null,
  decide,
  evolve,
})

const messageId = 'msg_01h455vb4pex5vsknk084sn02q'
const ACCEPTED_AT = 1_000_000
const EXPIRES_AT = ACCEPTED_AT + 300_000
const REPORT_DEADLINE = EXPIRES_AT + 900_000

const accepted = messageAccepted({ messageId, class: 'otp', at: ACCEPTED_AT, expiresAt: EXPIRES_AT })
const claimed = (attempt = 1, epoch = 1): HandoverStarted => ({
  type: 'HandoverStarted',
  messageId,
  at: ACCEPTED_AT + 10,
  epoch,
  attempt,
  operator: 'http',
})
const throttled = (attempt = 1, retryAt = ACCEPTED_AT + 1000): HandoverRefused => ({
  type: 'HandoverRefused',
  messageId,
  at: ACCEPTED_AT + 20,
  attempt,
  retryAt,
})
const sent = (operatorIds: ReadonlyArray<string> = ['op-1']): MessageSent => ({
  type: 'MessageSent',
  messageId,
  at: ACCEPTED_AT + 30,
  operator: 'http',
  operatorIds,
  reportDeadline: REPORT_DEADLINE,
})
const at = ACCEPTED_AT + 100
const delivered: LogFact = { type: 'MessageDelivered', messageId, at }
const undelivered = (reason: UndeliveredReason = 'recipient_unreachable'): LogFact => ({
  type: 'MessageUndelivered',
  messageId,
  at,
  reason,
})
const rejected = (reason: RejectedReason = 'spam_filter_sender'): LogFact => ({
  type: 'MessageRejected',
  messageId,
  at,
  reason,
})
const expired = (reason: ExpiredReason, when = at): LogFact => ({
  type: 'MessageExpired',
  messageId,
  at: when,
  reason,
})
const seen: LogFact = { type: 'MessageSeen', messageId, at }
/** The `MessageSent` of a message whose answer was lost and whose report proves the submit. */
const provenSent: LogFact = { ...sent([]), at, reportDeadline: at }

const handOver = (
  more: { at?: number; epoch?: number; operator?: string; dedupes?: boolean } = {},
): MessageCommand => ({
  type: 'ClaimHandover',
  epoch: 1,
  operator: 'http',
  at,
  ...more,
})
const submitted = (operatorIds: ReadonlyArray<string> = ['op-1']): MessageCommand => ({
  type: 'RecordSubmitted',
  operator: 'http',
  operatorIds,
  reportDeadline: REPORT_DEADLINE,
  at: ACCEPTED_AT + 30,
})
const refusal: MessageCommand = { type: 'RecordRefusal', submitted: true, retryAt: at + 500, at }
const rejection = (reason: RejectedReason | UndeliveredReason): MessageCommand => ({
  type: 'RecordRejection',
  reason,
  at,
})
const assumeSent: MessageCommand = {
  type: 'AssumeSent',
  reportDeadline: REPORT_DEADLINE,
  at: ACCEPTED_AT + 30,
}
const report = (outcome: ReportOutcome): MessageCommand => ({ type: 'RecordReport', outcome, at })
const reportOfDelivery = report({ status: 'delivered' })
const readReceipt: MessageCommand = { type: 'RecordReadReceipt', at }
const passDeadline = (when: number): MessageCommand => ({ type: 'PassDeadline', at: when })

const everyCommand: ReadonlyArray<MessageCommand> = [
  handOver(),
  submitted(),
  refusal,
  rejection('operator_rejected'),
  assumeSent,
  reportOfDelivery,
  readReceipt,
  passDeadline(REPORT_DEADLINE),
]
const answers = [submitted(), refusal, rejection('operator_rejected'), assumeSent]
const everyOutcome: ReadonlyArray<ReportOutcome> = [
  { status: 'delivered' },
  { status: 'undelivered', reason: 'recipient_blocked' },
  { status: 'rejected', reason: 'operator_rejected' },
  { status: 'expired', reason: 'dlr_timeout' },
]

describe('an unknown message', () => {
  it.each(everyCommand.map((command) => [command.type, command] as const))(
    '%s is refused',
    (type, command) => {
      given().when(command).thenFails('MessageUnknown', { command: type })
    },
  )
})

describe('a queued message', () => {
  it('is claimed for its first attempt', () => {
    given(accepted)
      .when(handOver())
      .then({ ...claimed(), at })
  })

  it('is claimed in the epoch of its owner', () => {
    given(accepted)
      .when(handOver({ epoch: 7 }))
      .then({ ...claimed(1, 7), at })
  })

  it('is claimed with the number of its parts if there are several, for an owner that knows only the log', () => {
    given({ ...accepted, parts: 3 })
      .when(handOver())
      .then({ ...claimed(), at, parts: 3 })
  })

  it('is not claimed once its lifetime has ended', () => {
    given(accepted)
      .when(handOver({ at: EXPIRES_AT }))
      .thenFails('LifetimeExpired', { expiresAt: EXPIRES_AT })
    given(accepted)
      .when(handOver({ at: EXPIRES_AT - 1 }))
      .then({ ...claimed(), at: EXPIRES_AT - 1 })
  })

  it('is not claimed before its acceptance has been read', () => {
    given(claimed(), throttled())
      .when(handOver({ at: at + 5000 }))
      .thenFails('AcceptanceUnknown')
    given(claimed(), throttled(), accepted)
      .when(handOver({ at: at + 5000 }))
      .then({ ...claimed(2), at: at + 5000 })
  })

  // Rules: MSG-30
  it('expires at the end of its lifetime with the reason that a resend is safe', () => {
    given(accepted).when(passDeadline(EXPIRES_AT)).then(expired('ttl_expired_before_submit', EXPIRES_AT))
  })

  it('does not expire before the end of its lifetime', () => {
    given(accepted)
      .when(passDeadline(EXPIRES_AT - 1))
      .thenNothing()
  })

  it.each([...answers, reportOfDelivery, readReceipt].map((command) => [command.type, command] as const))(
    'has no claim, so %s is an error',
    (type, command) => {
      given(accepted).when(command).thenFails('NotClaimed', { command: type, messageId })
    },
  )
})

describe('a claimed message', () => {
  it('is sent when the operator accepts it', () => {
    given(accepted, claimed())
      .when(submitted(['a', 'b']))
      .then(sent(['a', 'b']))
  })

  it('returns to the queue when the operator refuses it for now', () => {
    given(accepted, claimed())
      .when(refusal)
      .then({ ...throttled(1, at + 500), at })
  })

  // Rules: MSG-28
  it.each(REJECTED_REASONS)('is rejected on submit with %s, without being sent', (reason) => {
    given(accepted, claimed()).when(rejection(reason)).then(rejected(reason))
  })

  // Rules: MSG-27
  it.each(UNDELIVERED_REASONS)('is undelivered if the operator answers with %s', (reason) => {
    given(accepted, claimed()).when(rejection(reason)).then(undelivered(reason))
  })

  it('has no deadline, because it is unknown whether a resend is safe', () => {
    given(accepted, claimed())
      .when(passDeadline(REPORT_DEADLINE + 1))
      .thenNothing()
  })
})

describe('a refused message', () => {
  it('is not claimed before its retry time', () => {
    given(accepted, claimed(), throttled(1, at + 1))
      .when(handOver())
      .thenFails('RetryNotDue', { retryAt: at + 1 })
  })

  it('is claimed as the next attempt at its retry time', () => {
    given(accepted, claimed(), throttled(1, at))
      .when(handOver())
      .then({ ...claimed(2), at })
  })

  it('expires like any queued message', () => {
    given(accepted, claimed(), throttled(1, EXPIRES_AT + 1))
      .when(passDeadline(EXPIRES_AT))
      .then(expired('ttl_expired_before_submit', EXPIRES_AT))
  })

  it('is delivered when its operator reports it', () => {
    given(accepted, claimed(), throttled()).when(reportOfDelivery).then(provenSent, delivered)
  })

  it.each(answers.map((command) => [command.type, command] as const))(
    'already has an answer, so %s is an error',
    (_, command) => {
      given(accepted, claimed(), throttled()).when(command).thenFails('NotClaimed')
    },
  )
})

describe('a claim whose answer was lost', () => {
  // Rules: MSG-33
  it('is not repeated if the operator would send the message twice', () => {
    given(accepted, claimed()).when(handOver()).thenFails('OutcomeUnknown')
    given(accepted, claimed())
      .when(handOver({ dedupes: false, epoch: 2 }))
      .thenFails('OutcomeUnknown')
  })

  // Rules: MSG-33
  it('is repeated if the operator recognizes the reference', () => {
    given(accepted, claimed())
      .when(handOver({ dedupes: true, epoch: 2 }))
      .then({ ...claimed(2, 2), at })
  })

  it('is not repeated at another operator', () => {
    given(accepted, claimed())
      .when(handOver({ dedupes: true, operator: 'smpp' }))
      .thenFails('OutcomeUnknown')
  })

  it('is not repeated when the lifetime has ended', () => {
    given(accepted, claimed())
      .when(handOver({ dedupes: true, at: EXPIRES_AT }))
      .thenFails('LifetimeExpired')
  })

  // Rules: MSG-33
  it('becomes sent without ids', () => {
    given(accepted, claimed()).when(assumeSent).then(sent([]))
  })

  it('becomes sent only once', () => {
    given(accepted, claimed(), sent([])).when(assumeSent).thenNothing()
  })

  it('then waits for its report', () => {
    given(accepted, claimed(), sent([])).when(reportOfDelivery).then(delivered)
  })

  // Rules: MSG-31
  it('expires at the report deadline if no report comes', () => {
    given(accepted, claimed(), sent([]))
      .when(passDeadline(REPORT_DEADLINE))
      .then(expired('dlr_timeout_local', REPORT_DEADLINE))
  })

  it('keeps the ids of a late answer', () => {
    given(accepted, claimed(), sent([]))
      .when(submitted(['late']))
      .then({
        type: 'OpenMessageCarried',
        messageId,
        at: ACCEPTED_AT + 30,
        operator: 'http',
        operatorIds: ['late'],
        class: 'otp',
        attempts: 1,
        sentAt: ACCEPTED_AT + 30,
        reportDeadline: REPORT_DEADLINE,
      })
  })

  it('is rejected by a late rejection', () => {
    given(accepted, claimed(), sent([]))
      .when(rejection('operator_rejected'))
      .then(rejected('operator_rejected'))
  })

  it('is not queued again by a late refusal', () => {
    given(accepted, claimed(), sent([])).when(refusal).thenNothing()
  })

  it.each(everyOutcome.map((outcome) => [outcome.status, outcome] as const))(
    'is proven by a report (%s), which gives MessageSent first',
    (_, outcome) => {
      const end =
        outcome.status === 'delivered'
          ? delivered
          : outcome.status === 'undelivered'
            ? undelivered(outcome.reason)
            : outcome.status === 'rejected'
              ? rejected(outcome.reason)
              : expired(outcome.reason)
      given(accepted, claimed()).when(report(outcome)).then(provenSent, end)
    },
  )
})

describe('a sent message', () => {
  const history = [accepted, claimed(), sent()]

  it('is delivered by a report', () => {
    given(...history)
      .when(reportOfDelivery)
      .then(delivered)
  })

  it.each([
    'recipient_unreachable',
    'recipient_nonexistent',
    'recipient_blocked',
    'delivery_failed',
  ] as const)('is undelivered by a report: %s', (reason) => {
    given(...history)
      .when(report({ status: 'undelivered', reason }))
      .then(undelivered(reason))
  })

  it('is rejected by a report', () => {
    given(...history)
      .when(report({ status: 'rejected', reason: 'spam_filter_sender' }))
      .then(rejected('spam_filter_sender'))
  })

  // Rules: MSG-29
  it('expires when the operator gives up', () => {
    given(...history)
      .when(report({ status: 'expired', reason: 'dlr_timeout' }))
      .then(expired('dlr_timeout'))
  })

  // Rules: MSG-31
  it('expires at the report deadline', () => {
    given(...history)
      .when(passDeadline(REPORT_DEADLINE))
      .then(expired('dlr_timeout_local', REPORT_DEADLINE))
    given(...history)
      .when(passDeadline(REPORT_DEADLINE - 1))
      .thenNothing()
  })

  it('is not claimed again, even if the operator deduplicates', () => {
    given(...history)
      .when(handOver({ dedupes: true }))
      .thenFails('AlreadySubmitted')
  })

  it('becomes sent only once', () => {
    given(...history)
      .when(submitted())
      .thenNothing()
  })

  it('has the same state if only its re-appended fact is left', () => {
    const reappended: OpenMessageCarried = {
      type: 'OpenMessageCarried',
      messageId,
      at,
      operator: 'http',
      operatorIds: ['op-1'],
      class: 'otp',
      attempts: 1,
      sentAt: ACCEPTED_AT + 30,
      reportDeadline: REPORT_DEADLINE,
    }
    given(reappended).when(reportOfDelivery).then(delivered)
    given(reappended).when(passDeadline(REPORT_DEADLINE)).then(expired('dlr_timeout_local', REPORT_DEADLINE))
    given(reappended)
      .when(handOver({ dedupes: true }))
      .thenFails('AlreadySubmitted')
  })
})

describe('a read receipt', () => {
  // Rules: MSG-34
  it('of a delivered message gives MessageSeen and keeps the status', () => {
    given(accepted, claimed(), sent(), delivered).when(readReceipt).then(seen)
  })

  it('has an effect only once', () => {
    given(accepted, claimed(), sent(), delivered, seen).when(readReceipt).thenNothing()
  })

  it('before the delivery report proves the delivery', () => {
    given(accepted, claimed(), sent()).when(readReceipt).then(delivered, seen)
  })

  it('proves the submit too, if the answer was lost', () => {
    given(accepted, claimed()).when(readReceipt).then(provenSent, delivered, seen)
  })

  it('corrects dlr_timeout_local, like a late report', () => {
    given(accepted, claimed(), sent(), expired('dlr_timeout_local')).when(readReceipt).then(delivered, seen)
  })

  it.each([undelivered(), rejected(), expired('dlr_timeout'), expired('ttl_expired_before_submit')])(
    'changes no other final status: $type $reason',
    (end) => {
      given(accepted, claimed(), sent(), end).when(readReceipt).thenNothing()
    },
  )
})

describe('a late report', () => {
  const history = [accepted, claimed(), sent(), expired('dlr_timeout_local')]

  // Rules: MSG-26
  it('corrects dlr_timeout_local to delivered', () => {
    given(...history)
      .when(reportOfDelivery)
      .then(delivered)
  })

  // Rules: MSG-26
  it('corrects dlr_timeout_local to undelivered', () => {
    given(...history)
      .when(report({ status: 'undelivered', reason: 'recipient_blocked' }))
      .then(undelivered('recipient_blocked'))
  })

  // Rules: MSG-26
  it('corrects dlr_timeout_local to no other status', () => {
    given(...history)
      .when(report({ status: 'rejected', reason: 'operator_rejected' }))
      .thenNothing()
    given(...history)
      .when(report({ status: 'expired', reason: 'dlr_timeout' }))
      .thenNothing()
  })

  it('has an effect only once', () => {
    for (const outcome of everyOutcome) {
      given(...history, undelivered())
        .when(report(outcome))
        .thenNothing()
      given(...history, delivered)
        .when(report(outcome))
        .thenNothing()
    }
  })
})

describe('a final status', () => {
  const ends = [
    delivered,
    undelivered(),
    rejected(),
    expired('dlr_timeout'),
    expired('dlr_timeout_local'),
    expired('ttl_expired_before_submit'),
  ]

  // Rules: MSG-25
  it.each(ends)('does not change with an answer or a deadline: $type $reason', (end) => {
    for (const command of [...answers, passDeadline(REPORT_DEADLINE * 2)]) {
      given(accepted, claimed(), sent(), end).when(command).thenNothing()
    }
  })

  it.each(ends)('prevents another claim: $type $reason', (end) => {
    given(accepted, claimed(), sent(), end)
      .when(handOver({ dedupes: true }))
      .thenFails('AlreadySubmitted')
  })

  it.each(ends.filter((end) => !(end.type === 'MessageExpired' && end.reason === 'dlr_timeout_local')))(
    'is changed by no report: $type $reason',
    (end) => {
      for (const outcome of everyOutcome)
        given(accepted, claimed(), sent(), end).when(report(outcome)).thenNothing()
    },
  )
})
