/**
 * Selects the next messages, for all shards of the process, and submits them to the
 * operators. `otp` goes before `service`. In each class the accounts take turns, in proportion to
 * their weights, and for each account the shards do, within the window and rate of each operator.
 * `dispatch` runs after each change, and when the rate allows the next part.
 */
import { FairTurns } from '@hub/actor'
import { crashPointOfValue } from '@hub/crash-points'
import type { Operator, Submission, SubmitOutcome } from '@hub/operator'
import { Effect, FiberSet, type Scope } from 'effect'
import type { GaugedRate, Metrics } from '../metrics.ts'
import type { Grant } from '../pacing/hub-rate.ts'
import type { ShardRuntime } from '../shard/shard-runtime.ts'
import { LANES } from '../shard/limits.ts'
import type { Message, PreparedSubmission } from '../shard/message.ts'
import type { MessageTraces } from '../tracing/message-traces.ts'
import type { Weights } from '../weights/weights.ts'
import { FairnessWindow } from './fairness-window.ts'
import { Pace } from './pace.ts'
import { type Demand, makePacer, type OwnGrantRequest, type Pacer } from './pacer.ts'

/** Reported failure: no outcome is known. */
const atSubmitted = crashPointOfValue('dispatcher.submitted', (): ReadonlyArray<SubmitOutcome> => [])

/**
 * If Kafka takes so long to acknowledge, ms, few claims may wait for it. After a crash, nobody knows whether
 * the operator has a message whose claim is in the log (docs/operating.md, Restarts). Between the append of a
 * claim and its submit there is the acknowledgement, so a slow Kafka would put a whole window at risk.
 */
const SLOW_APPEND_MS = 250
/** At 250 ms, two thirds of the rate that a window of 100 messages allows. */
const CLAIMS_WHILE_SLOW = 32

/** A message with an acknowledged claim. */
interface Claimed {
  readonly shard: ShardRuntime
  readonly message: Message
  readonly submission: PreparedSubmission
}

interface Submitted extends Claimed {
  readonly request: Submission
  /** Of the pace, when the message was submitted. */
  readonly reaction: number
  /** For traced messages only. */
  readonly tracedAt: number | null
}

type Answered = Submitted & { readonly outcome: SubmitOutcome }

interface OperatorState {
  readonly operator: Operator
  readonly pace: Pace
  /** `null` if the operator never throttles. */
  pacer: Pacer | null
  /** For each lane. The cost of a message is the number of its parts, divided by the weight. */
  readonly turns: ReadonlyArray<FairTurns<ShardRuntime>>
  /** What the accounts of each lane have had. */
  readonly windows: ReadonlyArray<FairnessWindow>
  /** Messages for the next submit. */
  claimed: Array<Claimed>
  readonly answers: Array<Answered>
  /** Answered parts since the start. */
  passedParts: number
  throttledParts: number
}

const partsOf = (message: Message | null): number => message?.laneRecord?.parts ?? 1

interface AnsweredParts {
  readonly passedParts: number
  readonly throttledParts: number
}

export interface HandoverLoop {
  /** Submits the claimed messages, and takes further ones from the shards. */
  readonly dispatch: () => void
  /** An account may have a message to take in the shard. */
  readonly onReady: (shard: ShardRuntime, lane: number, operator: string, account: string) => void
  /** The claim of a message is acknowledged. The next `dispatch` submits it. */
  readonly enqueueClaimed: (shard: ShardRuntime, message: Message, submission: PreparedSubmission) => void
  readonly inFlight: () => number
  /** The rates at the operators that may throttle. */
  readonly rates: () => ReadonlyArray<Omit<GaugedRate, 'isShared'>>
  /** The parts that an operator has answered since the start. */
  readonly answeredParts: (operator: string) => AnsweredParts
  /** Call it every second: sets the metrics about accounts that wait. */
  readonly observeAccounts: () => void
}

export const makeHandoverLoop = (options: {
  readonly operators: ReadonlyArray<Operator>
  readonly shards: () => ReadonlyArray<ShardRuntime>
  readonly mayStart: () => boolean
  readonly weightOf: Weights['of']
  /** How long Kafka takes to acknowledge the append of a claim, ms. */
  readonly appendDelayMs: () => number
  /** Runs a change, and then `dispatch`. */
  readonly apply: (change: () => void) => void
  readonly now: () => number
  /** Milliseconds of a clock that never jumps. */
  readonly monotonicNow: () => number
  /** Requests a grant of the rate of an operator. Returns `null` if the request did not arrive. */
  readonly requestGrant: (operator: Operator, request: OwnGrantRequest) => Effect.Effect<Grant | null>
  readonly metrics: Metrics
  readonly traces: MessageTraces
  readonly supervise: <A>(effect: Effect.Effect<A>) => Effect.Effect<void>
}): Effect.Effect<HandoverLoop, never, Scope.Scope> =>
  Effect.gen(function* () {
    const fork = yield* FiberSet.makeRuntime<never>()
    const { apply, metrics, monotonicNow, now, supervise, traces } = options
    const states = new Map<string, OperatorState>(
      options.operators.map((operator) => [
        operator.name,
        {
          operator,
          claimed: [],
          pace: new Pace(operator.capabilities),
          pacer: null,
          turns: Array.from({ length: LANES }, () => new FairTurns<ShardRuntime>()),
          windows: Array.from({ length: LANES }, () => new FairnessWindow()),
          answers: [],
          passedParts: 0,
          throttledParts: 0,
        },
      ]),
    )

    const countAccepted = ({ account, lane, laneRecord, route }: Message) => {
      if (laneRecord === null) return
      const amount = laneRecord.parts / options.weightOf(account, laneRecord.mode)
      states.get(route)?.windows[lane]?.accepted(account, amount)
    }

    const onAnswer = ({ message, outcome, shard, submission, tracedAt }: Answered) => {
      const messageClass = message.state.class
      const { acceptedAt, mode } = submission
      if (outcome.type === 'accepted') {
        metrics.acceptedByOperator(messageClass, now() - acceptedAt)
        countAccepted(message)
      }
      metrics.submitAnswered(message.route, messageClass, outcome)
      metrics.partsAnswered(message.route, submission.request.parts, outcome)
      if (outcome.type === 'notWritten') metrics.leaseStopped(1)
      if (tracedAt !== null) traces.answered(message, mode, outcome.type, tracedAt)
      if (shard.handle.isCurrent()) shard.run({ type: 'answered', message, outcome, submission })
    }

    const processAnswers = (state: OperatorState) => {
      const { answers, pace } = state
      const batch = answers.splice(0)
      for (const { outcome, request } of batch) {
        if (outcome.type === 'accepted' || outcome.type === 'rejected') state.passedParts += request.parts
        state.throttledParts += outcome.throttledParts ?? 0
      }
      apply(() => {
        pace.answered(
          batch.map(({ message, outcome, reaction, request }) => ({
            attempts: message.state.attempts,
            outcome,
            parts: request.parts,
            reaction,
          })),
          monotonicNow(),
        )
        for (const answer of batch) onAnswer(answer)
      })
    }

    const submitBatch = (state: OperatorState, batch: ReadonlyArray<Submitted>) => {
      const shards = new Set(batch.map(({ shard }) => shard))
      // The operator checks the lease in the same tick in which it writes to its socket.
      const hasLease = () => [...shards].every((shard) => shard.handle.hasLease())
      const onThrottled = () =>
        apply(() => {
          for (const { message, reaction } of batch)
            state.pace.throttled({ attempts: message.state.attempts, reaction })
        })
      const submitting = Effect.flatMap(
        state.operator.submit(
          batch.map(({ request }) => request),
          hasLease,
          onThrottled,
        ),
        (answered) => {
          const outcomes = atSubmitted(answered)
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
      const { claimed, operator, pace } = state
      // The claims stay valid. The lease is checked when the operator is called.
      if (pace.isHeld(monotonicNow())) return
      const { reaction } = pace
      state.claimed = []
      const batch = claimed.flatMap((one): ReadonlyArray<Submitted> => {
        const { message, shard, submission } = one
        if (!shard.handle.isCurrent()) return []
        const validitySeconds = Math.max(1, Math.ceil((submission.expiresAt - at) / 1000))
        const tracedAt = traces.has(message.id) ? traces.now() : null
        const partGapMs = pace.partGapMs(submission.request.parts)
        const request = { ...submission.request, validitySeconds, ...(partGapMs > 0 ? { partGapMs } : {}) }
        return [{ ...one, reaction, request, tracedAt }]
      })
      if (operator.capabilities.submitsIndividually === true)
        for (const one of batch) submitBatch(state, [one])
      else if (batch.length > 0) submitBatch(state, batch)
    }

    /** Takes the next message of a lane, in the turns of the accounts. */
    const takeNext = (
      { operator, turns }: OperatorState,
      lane: number,
      shards: ReadonlyArray<ShardRuntime>,
    ) => {
      const fair = turns[lane]!
      for (let turn = fair.next(); turn !== null; turn = fair.next()) {
        const { account, source: shard } = turn
        // A shard that is not open any more may still have messages in its queues.
        const isOpen = shards.includes(shard)
        const message = isOpen ? shard.messages.take(lane, operator.name, account) : null
        if (message === null) {
          fair.emptied(account, shard)
          continue
        }
        const parts = partsOf(message)
        fair.served(
          message.account,
          parts / options.weightOf(message.account, message.laneRecord?.mode ?? 'live'),
        )
        return { message, parts, shard }
      }
      return null
    }

    /** The next message of a lane, without taking it. */
    const peekNext = (
      { operator, turns }: OperatorState,
      lane: number,
      shards: ReadonlyArray<ShardRuntime>,
    ) => {
      const fair = turns[lane]!
      for (let turn = fair.peek(); turn !== null; turn = fair.peek()) {
        const { account, source: shard } = turn
        const isOpen = shards.includes(shard)
        const message = isOpen ? shard.messages.queues.peek(lane, operator.name, account) : null
        if (message !== null) return message
        fair.emptied(account, shard)
      }
      return null
    }

    /** What waits for an operator with a rate. Messages that wait for a retry do not count. */
    const demandOf = (state: OperatorState): Demand => {
      const shards = options.shards()
      const { operator, pace } = state
      const heads =
        pace.granted?.isLimited === true ? [0, 1].map((lane) => peekNext(state, lane, shards)) : [null, null]
      let inProgress = 0
      for (const shard of shards) inProgress += shard.messages.handovers.countAt(operator.name)
      const [otp = 0, service = 0] = heads.map((head, lane) => {
        if (head === null) return 0
        let count = 0
        for (const shard of shards) count += shard.messages.queues.count(lane, operator.name)
        const waiting = Math.max(1, count - inProgress)
        inProgress = Math.max(0, inProgress - count)
        return waiting
      })
      return { otp, service, nextParts: partsOf(heads[0] ?? heads[1] ?? null) }
    }

    for (const state of states.values()) {
      const { operator, pace } = state
      if (pace.granted === null) continue
      state.pacer = yield* makePacer({
        granted: pace.granted,
        demand: () => demandOf(state),
        request: (request) => options.requestGrant(operator, request),
        wake: () => apply(() => {}),
        now: monotonicNow,
        fork: (effect) => fork(supervise(effect)),
      })
    }

    /** How many further claims may wait for their acknowledgement. */
    const claimRoom = (shards: ReadonlyArray<ShardRuntime>): number => {
      if (options.appendDelayMs() < SLOW_APPEND_MS) return Number.POSITIVE_INFINITY
      let waiting = 0
      for (const shard of shards) waiting += shard.messages.handovers.unacknowledged
      return Math.max(0, CLAIMS_WHILE_SLOW - waiting)
    }

    /** Takes as many messages as the operator has room for, the more urgent lane first. */
    const take = (state: OperatorState, shards: ReadonlyArray<ShardRuntime>, at: number) => {
      const { operator, pace } = state
      const taken: Array<readonly [ShardRuntime, Message]> = []
      let inProgress = 0
      for (const shard of shards) inProgress += shard.messages.handovers.countAt(operator.name)
      const mostClaims = claimRoom(shards)
      for (let lane = 0; lane < LANES; lane++) {
        let free = Math.min(pace.room(lane, inProgress, at), mostClaims - taken.length)
        while (free > 0 && pace.mayTake(at)) {
          const next = takeNext(state, lane, shards)
          if (next === null) break
          free--
          inProgress++
          pace.took(next.parts)
          taken.push([next.shard, next.message])
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
        const at = monotonicNow()
        for (const state of states.values()) {
          // Starts only after all are taken: a handover that fails at once runs `dispatch` again.
          // The order of the starts is the order of the claims, so `otp` of all shards comes first.
          for (const [shard, message] of take(state, shards, at)) shard.start(message)
        }
        for (const { pacer } of states.values()) pacer?.settled(at)
      },
      onReady: (shard, lane, operator, account) => states.get(operator)?.turns[lane]?.add(account, shard),
      enqueueClaimed: (shard, message, submission) => {
        states.get(message.route)?.claimed.push({ shard, message, submission })
      },
      rates: () =>
        Array.from(states.values()).flatMap(({ operator: { capabilities, name }, pace: { granted } }) => {
          if (granted === null) return []
          const { rate = null, share = 0 } = granted.last ?? {}
          const own = rate === null ? null : rate * share
          return [{ operator: name, hub: rate, own, configured: capabilities.maxPartsPerSecond ?? null }]
        }),
      answeredParts: (operator) => {
        const { passedParts = 0, throttledParts = 0 } = states.get(operator) ?? {}
        return { passedParts, throttledParts }
      },
      observeAccounts: () => {
        for (const { operator, windows } of states.values()) {
          for (const [lane, window] of windows.entries()) {
            const waiting = new Set<string>()
            let oldest: number | null = null
            for (const { messages } of options.shards()) {
              for (const share of messages.queues.shares(lane, operator.name)) {
                const acceptedAt = share.oldest()?.laneRecord?.at ?? null
                if (share.isBehind || acceptedAt !== null) waiting.add(share.account)
                if (acceptedAt !== null) oldest = Math.min(oldest ?? acceptedAt, acceptedAt)
              }
            }
            const waitMs = oldest === null ? 0 : Math.max(0, now() - oldest)
            metrics.accounts(operator.name, lane, window.sample(waiting), waitMs)
          }
        }
      },
      inFlight: () => options.shards().reduce((sum, shard) => sum + shard.messages.handovers.count, 0),
    }
  })
