import { Context, Redacted } from 'effect'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { submissionOf } from '../port.contract.ts'
import type { SubmitOutcome } from '../port.ts'
import { makeSmppMetrics } from './metrics.ts'
import { decodePdu, encodePdu, type Fields, type Pdu } from './pdu/index.ts'
import type { Session } from './session.ts'
import { SMPP_DEFAULTS } from './settings.ts'
import { makeSubmitter } from './submitter.ts'

const STATUS = { accepted: 0, throttled: 0x58, retry: 0x08, rejected: 0x0b } as const
type Answer = keyof typeof STATUS | 'lost'

interface SentPart {
  readonly part: number
  readonly onAnswer: (answer: Pdu | null) => void
}

/** A session whose answers the test gives in any order. */
const makeFakeSession = () => {
  const open: Array<SentPart> = []
  const session: Session = {
    role: 'transceiver',
    isBound: () => true,
    isStalled: () => false,
    canWrite: () => true,
    inFlight: () => open.length,
    request: (_command, fields: Fields, onAnswer) => {
      const octets = fields['short_message'] as Uint8Array
      open.push({ part: fields['esm_class'] === 0x40 ? octets[5]! : 1, onAnswer })
    },
    flush: () => {},
    answer: () => {},
    close: () => {},
    destroy: () => {},
  }
  return { open, session }
}

const answerOf = (answer: Answer, part: number): Pdu | null =>
  answer === 'lost'
    ? null
    : decodePdu(
        encodePdu(
          'submit_sm_resp',
          1,
          answer === 'accepted' ? { message_id: `id-${part}` } : {},
          STATUS[answer],
        ),
      )

/** Random answers to the parts, in order. Further parts are accepted. */
const anyAnswers = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constant<Answer>('accepted') },
    { weight: 1, arbitrary: fc.constantFrom<Answer>('throttled', 'retry', 'rejected', 'lost') },
  ),
  { maxLength: 12 },
)

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

it('derives the outcome of a message from its parts, and never submits a part twice that may be accepted', async () => {
  const metrics = makeSmppMetrics(Context.empty())
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 4 }),
      fc.constantFrom(0, 100),
      anyAnswers,
      fc.array(fc.nat(), { minLength: 1 }),
      async (parts, window, partGapMs, script, order) => {
        const sessions = [makeFakeSession(), makeFakeSession()]
        const submitter = makeSubmitter({
          settings: {
            ...SMPP_DEFAULTS,
            url: new URL('smpp://hub@localhost'),
            password: Redacted.make(''),
            window,
            retryMs: 0,
          },
          sessions: () => sessions.map(({ session }) => session),
          metrics,
          onAnswer: () => {},
          onThrottled: () => {},
          onRefused: () => {},
        })
        const text = 'x'.repeat(parts === 1 ? 100 : 150 * parts)
        const reported: Array<ReadonlyArray<SubmitOutcome>> = []
        submitter.submit(
          [submissionOf('msg_a', { text, parts, partGapMs })],
          () => true,
          (outcomes) => reported.push(outcomes),
        )
        const history: Array<{ readonly part: number; readonly answer: Answer }> = []
        const accepted = new Set<number>()
        for (let i = 0; reported.length === 0; i++) {
          // The first write is at the end of the tick.
          await Promise.resolve()
          const open = sessions.flatMap((session) => session.open.map((sent) => ({ session, sent })))
          if (open.length === 0) {
            // The message waits for its next part, or for its retry.
            vi.advanceTimersToNextTimer()
            continue
          }
          expect(sessions.every((session) => session.open.length <= window)).toBe(true)
          const { sent, session } = open[order[i % order.length]! % open.length]!
          session.open.splice(session.open.indexOf(sent), 1)
          const answer = script[history.length] ?? 'accepted'
          expect(accepted.has(sent.part)).toBe(false)
          if (answer === 'accepted' || answer === 'lost') accepted.add(sent.part)
          history.push({ part: sent.part, answer })
          sent.onAnswer(answerOf(answer, sent.part))
          submitter.pump()
        }
        expect(reported).toHaveLength(1)
        expect(sessions.flatMap(({ open }) => open)).toEqual([])
        const { throttledParts = 0, ...outcome } = reported[0]![0]!
        expect(throttledParts).toBe(history.filter(({ answer }) => answer === 'throttled').length)
        const had = (answer: Answer) => history.some((one) => one.answer === answer)
        if (had('rejected')) {
          expect(outcome).toEqual({ type: 'rejected', reason: 'operator_rejected' })
        } else if (accepted.size === 0) {
          expect(outcome).toMatchObject({ type: 'refused', submitted: true })
        } else if (had('lost')) {
          expect(outcome).toEqual({ type: 'unknown' })
          expect(accepted.size).toBe(parts)
        } else {
          const operatorIds = Array.from({ length: parts }, (_, i) => `id-${i + 1}`)
          expect(outcome).toEqual({ type: 'accepted', operatorIds })
        }
        submitter.close()
      },
    ),
    { numRuns: 300 },
  )
})

it('leaves the given time between two parts of a message, and lets other messages pass', async () => {
  const { open, session } = makeFakeSession()
  const written: Array<string> = []
  const started = performance.now()
  const submitter = makeSubmitter({
    settings: { ...SMPP_DEFAULTS, url: new URL('smpp://hub@localhost'), password: Redacted.make('') },
    sessions: () => [
      {
        ...session,
        request: (...request) => {
          session.request(...request)
          written.push(`${open.at(-1)!.part} at ${performance.now() - started}`)
        },
      },
    ],
    metrics: makeSmppMetrics(Context.empty()),
    onAnswer: () => {},
    onThrottled: () => {},
    onRefused: () => {},
  })
  const submit = (reference: string, parts: number, partGapMs: number) =>
    submitter.submit(
      [submissionOf(reference, { text: 'x'.repeat(150 * parts), parts, partGapMs })],
      () => true,
      () => {},
    )
  submit('msg_long', 3, 100)
  await vi.advanceTimersByTimeAsync(50)
  submit('msg_code', 1, 100)
  await vi.advanceTimersByTimeAsync(500)
  expect(written).toEqual(['1 at 0', '1 at 50', '2 at 100', '3 at 200'])
  submitter.close()
})
