/**
 * Selects the messages to hand over, for all shards of the process, and submits them to the
 * operators. `otp` goes before `service`, and the shards take turns, within the window and rate of
 * each operator. There is no timer: `dispatch` runs after each change.
 */
import { DEFAULT_LIFETIMES, reportDeadline, sandboxScenario } from '@hub/domain'
import type { Operator, Submission, SubmitOutcome } from '@hub/operator'
import { Effect, FiberSet, type Scope } from 'effect'
import type { Metrics } from '../metrics.ts'
import type { DispatcherShard } from '../shard/dispatcher-shard.ts'
import { LANES } from '../shard/limits.ts'
import type { Message, PreparedSubmission } from '../shard/message.ts'
import type { MessageTraces } from '../tracing/message-traces.ts'
import { Pace } from './pace.ts'

/** A message with an acknowledged claim. */
interface Claimed {
  readonly shard: DispatcherShard
  readonly message: Message
  readonly submission: PreparedSubmission
}

interface Submitted extends Claimed {
  readonly request: Submission
  /** For traced messages only. */
  readonly tracedAt: number | null
}

type Answered = Submitted & { readonly outcome: SubmitOutcome }

interface OperatorState {
  readonly operator: Operator
  readonly pace: Pace
  /** Messages for the next submit. */
  claimed: Array<Claimed>
  readonly answers: Array<Answered>
}

export interface HandoverLoop {
  /** Submits the claimed messages, and takes further ones from the shards. */
  readonly dispatch: () => void
  /** The claim of a message is acknowledged. The next `dispatch` submits it. */
  readonly submit: (shard: DispatcherShard, message: Message, submission: PreparedSubmission) => void
  readonly inFlight: () => number
}

export const makeHandoverLoop = (options: {
  readonly operators: ReadonlyArray<Operator>
  readonly shards: () => ReadonlyArray<DispatcherShard>
  readonly mayStart: () => boolean
  /** Runs a change, and then `dispatch`. */
  readonly apply: (change: () => void) => void
  readonly now: () => number
  readonly metrics: Metrics
  readonly traces: MessageTraces
  readonly supervise: <A>(effect: Effect.Effect<A>) => Effect.Effect<void>
}): Effect.Effect<HandoverLoop, never, Scope.Scope> =>
  Effect.gen(function* () {
    const fork = yield* FiberSet.makeRuntime<never>()
    const { apply, metrics, now, supervise, traces } = options
    const states = new Map<string, OperatorState>(
      options.operators.map((operator) => [
        operator.name,
        { operator, claimed: [], pace: new Pace(operator.capabilities, now()), answers: [] },
      ]),
    )
    /** The shard whose turn it is. */
    let turn = 0

    const onAnswer = ({ message, outcome, shard, submission, tracedAt }: Answered) => {
      const messageClass = message.state.class
      const { acceptedAt, mode, request } = submission
      const at = now()
      if (outcome.type === 'accepted') metrics.handedOver(messageClass, at - acceptedAt)
      metrics.submitAnswered(message.route, messageClass, outcome)
      if (outcome.type === 'notWritten') metrics.leaseStopped(1)
      if (tracedAt !== null) traces.answered(message, mode, outcome.type, tracedAt)
      if (!shard.handle.isCurrent()) return
      const scenario = mode === 'test' ? sandboxScenario(request.to) : null
      const deadline = reportDeadline(DEFAULT_LIFETIMES, { class: messageClass, sentAt: at, scenario })
      shard.submitAnswered(message, outcome, deadline)
    }

    const processAnswers = ({ answers, pace }: OperatorState) => {
      const batch = answers.splice(0)
      apply(() => {
        pace.answered(
          batch.map(({ outcome }) => outcome),
          now(),
        )
        for (const answer of batch) onAnswer(answer)
      })
    }

    const submit = (state: OperatorState, batch: ReadonlyArray<Submitted>) => {
      const shards = new Set(batch.map(({ shard }) => shard))
      // The operator checks the lease in the same tick in which it writes to its socket.
      const hasLease = () => [...shards].every((shard) => shard.handle.hasLease())
      const submitting = Effect.flatMap(
        state.operator.submit(
          batch.map(({ request }) => request),
          hasLease,
        ),
        (outcomes) => {
          const isFirst = state.answers.length === 0
          for (const [i, submitted] of batch.entries()) {
            state.answers.push({ ...submitted, outcome: outcomes[i] ?? { type: 'unknown' } })
          }
          // Further answers may arrive in the same tick. They are processed together.
          return isFirst
            ? Effect.andThen(
                Effect.yieldNow,
                Effect.sync(() => processAnswers(state)),
              )
            : Effect.void
        },
      )
      fork(supervise(submitting))
    }

    const submitClaimed = (state: OperatorState) => {
      const at = now()
      const { claimed, operator } = state
      state.claimed = []
      const batch = claimed.flatMap((one): ReadonlyArray<Submitted> => {
        const { message, shard, submission } = one
        if (!shard.handle.isCurrent()) return []
        const validitySeconds = Math.max(1, Math.ceil((submission.expiresAt - at) / 1000))
        const tracedAt = traces.has(message.id) ? traces.now() : null
        return [{ ...one, tracedAt, request: { ...submission.request, validitySeconds } }]
      })
      if (operator.capabilities.submitsIndividually === true) for (const one of batch) submit(state, [one])
      else if (batch.length > 0) submit(state, batch)
    }

    /** Takes as many messages as the operator has room for, the more urgent lane first. */
    const take = ({ operator, pace }: OperatorState, shards: ReadonlyArray<DispatcherShard>) => {
      const at = now()
      const taken: Array<readonly [DispatcherShard, Message]> = []
      let inProgress = 0
      for (const shard of shards) inProgress += shard.messages.handovers.countAt(operator.name)
      for (let lane = 0; lane < LANES; lane++) {
        let free = pace.room(lane, inProgress, at)
        let emptyShards = 0
        while (free > 0 && emptyShards < shards.length && pace.mayTake(lane, at)) {
          const shard = shards[turn++ % shards.length]!
          const message = shard.messages.handovers.take(lane, operator.name)
          if (message === null) {
            emptyShards++
            continue
          }
          emptyShards = 0
          free--
          inProgress++
          pace.took(message.accepted?.parts ?? 1)
          taken.push([shard, message])
        }
      }
      return taken
    }

    return {
      dispatch: () => {
        for (const state of states.values()) if (state.claimed.length > 0) submitClaimed(state)
        if (!options.mayStart()) return
        const shards = options.shards()
        if (shards.length === 0) return
        for (const state of states.values()) {
          // Starts only after all are taken: a handover that fails at once runs `dispatch` again.
          // The order of the starts is the order of the claims, so `otp` of all shards comes first.
          for (const [shard, message] of take(state, shards)) shard.start(message)
        }
      },
      submit: (shard, message, submission) => {
        states.get(message.route)?.claimed.push({ shard, message, submission })
      },
      inFlight: () => options.shards().reduce((sum, shard) => sum + shard.messages.handovers.count, 0),
    }
  })
