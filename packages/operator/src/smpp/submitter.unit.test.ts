import { Context, Redacted } from 'effect'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { submissionOf } from '../port.contract.ts'
import type { SubmitOutcome } from '../port.ts'
import { makeSmppMetrics } from './metrics.ts'
import { decodePdu, encodePdu, type Fields, type Pdu } from './pdu.ts'
import type { Session } from './session.ts'
import { SMPP_DEFAULTS } from './settings.ts'
import { makeSubmitter } from './submitter.ts'

const STATUS = { accepted: 0, throttled: 0x58, retry: 0x08, rejected: 0x0b } as const
type Answer = keyof typeof STATUS | 'lost'

interface Asked {
  readonly part: number
  readonly answered: (answer: Pdu | null) => void
}

/** A bind on which a test answers, in the order that it likes. */
const makeFakeBind = () => {
  const open: Array<Asked> = []
  const session: Session = {
    role: 'transceiver',
    isBound: () => true,
    canWrite: () => true,
    inFlight: () => open.length,
    request: (_command, fields: Fields, answered) => {
      const octets = fields['short_message'] as Uint8Array
      open.push({ part: fields['esm_class'] === 0x40 ? octets[6]! : 1, answered })
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

/** What a history of answers must come to; `null` where the message has to go on. */
const answers = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constant<Answer>('accepted') },
    { weight: 1, arbitrary: fc.constantFrom<Answer>('throttled', 'retry', 'rejected', 'lost') },
  ),
  { maxLength: 12 },
)

it('answers for a message by what became of its parts, and hands over no part twice that may have been taken', async () => {
  const metrics = makeSmppMetrics(Context.empty())
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 4 }),
      answers,
      fc.array(fc.nat(), { minLength: 1 }),
      async (parts, window, script, order) => {
        const binds = [makeFakeBind(), makeFakeBind()]
        const submitter = makeSubmitter({
          settings: {
            ...SMPP_DEFAULTS,
            url: new URL('smpp://hub@localhost'),
            password: Redacted.make(''),
            window,
            retryMs: 0,
            pace: { pauseMs: 0, maxPauseMs: 0, recoverMs: 1 },
          },
          sessions: () => binds.map(({ session }) => session),
          metrics,
          onThrottled: () => {},
          onRefused: () => {},
        })
        const text = 'x'.repeat(parts === 1 ? 100 : 150 * parts)
        const told: Array<ReadonlyArray<SubmitOutcome>> = []
        submitter.submit(
          [submissionOf('msg_a', { text, parts })],
          () => true,
          (outcomes) => told.push(outcomes),
        )
        const history: Array<{ readonly part: number; readonly answer: Answer }> = []
        const taken = new Set<number>()
        for (let i = 0; told.length === 0; i++) {
          const open = binds.flatMap((bind) => bind.open.map((asked) => ({ bind, asked })))
          if (open.length === 0) {
            // It waits for its time.
            await new Promise((resolve) => setTimeout(resolve))
            continue
          }
          expect(binds.every((bind) => bind.open.length <= window)).toBe(true)
          const { asked, bind } = open[order[i % order.length]! % open.length]!
          bind.open.splice(bind.open.indexOf(asked), 1)
          const answer = script[history.length] ?? 'accepted'
          expect(taken.has(asked.part)).toBe(false)
          if (answer === 'accepted' || answer === 'lost') taken.add(asked.part)
          history.push({ part: asked.part, answer })
          asked.answered(answerOf(answer, asked.part))
          submitter.pump()
        }
        expect(told).toHaveLength(1)
        expect(binds.flatMap(({ open }) => open)).toEqual([])
        const [outcome] = told[0]!
        const had = (answer: Answer) => history.some((one) => one.answer === answer)
        if (had('rejected')) {
          expect(outcome).toEqual({ type: 'rejected', reason: 'operator_rejected' })
        } else if (taken.size === 0) {
          expect(outcome?.type).toBe('refused')
        } else if (had('lost')) {
          expect(outcome).toEqual({ type: 'unknown' })
          expect(taken.size).toBe(parts)
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
