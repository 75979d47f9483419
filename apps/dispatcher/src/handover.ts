/**
 * Who is handed over next, over all shards of the process: `otp` before `service`, shards in turn, within each operator's
 * window and rate. And the way of one message: payload opened, claim acknowledged by the log, submitted, answered.
 *
 * There is no timer and no poll on this way: `dispatch` runs after every change.
 */
import { DEFAULT_LIFETIMES, encodingOf, type Lifetimes, reportDeadline, sandboxScenario } from '@hub/domain'
import type { Operator, Submission, SubmitOutcome } from '@hub/operator'
import { DecryptionFailed, PayloadEncryption } from '@hub/store'
import { Effect, FiberSet, Result, Schema, type Scope } from 'effect'
import type { Metrics } from './metrics.ts'
import { Pace } from './pace.ts'
import type { DispatcherShard } from './shard/dispatcher-shard.ts'
import type { Message } from './shard/message.ts'
import type { MessageTraces } from './traces.ts'

/** otp, then service. */
const LANES = 2
/** Before a payload whose key could not be fetched is tried again. */
const STORAGE_PAUSE_MS = 500

const decodePayload = Schema.decodeUnknownResult(
  Schema.fromJsonString(Schema.Struct({ to: Schema.String, text: Schema.String })),
)

/** A message on its way to the operator: claimed, or about to be. */
interface Prepared {
  readonly submission: Submission
  readonly acceptedAt: number
  readonly expiresAt: number
  readonly mode: 'live' | 'test'
  /** When it left for the operator; told of those that are traced only. */
  submittedAt: number | null
}

/** A message that is handed over now. */
interface Sent {
  readonly shard: DispatcherShard
  readonly message: Message
  readonly submission: Submission
}

interface Lane {
  readonly operator: Operator
  /** Claimed and acknowledged, for the next submission. */
  queue: Array<{ readonly shard: DispatcherShard; readonly message: Message }>
  readonly pace: Pace
  /** Answered, and about to be taken down. */
  readonly answers: Array<{
    readonly shard: DispatcherShard
    readonly message: Message
    readonly outcome: SubmitOutcome
  }>
}

export interface Handover {
  /** Takes what may be taken now, and sends off what was acknowledged. */
  readonly dispatch: () => void
  /** The claim of a message is acknowledged; it leaves with the next `dispatch`. */
  readonly submit: (shard: DispatcherShard, message: Message) => void
  /** Hand-overs under way, over all shards. */
  readonly inFlight: () => number
}

export interface HandoverOptions {
  readonly operators: ReadonlyArray<Operator>
  readonly shards: () => ReadonlyArray<DispatcherShard>
  readonly mayBegin: () => boolean
  /** Runs a change and whatever follows from it. */
  readonly act: (change: () => void) => void
  readonly now: () => number
  readonly metrics: Metrics
  readonly traces: MessageTraces
  /** Tells whoever runs the process when an effect dies. */
  readonly supervise: <A>(effect: Effect.Effect<A>) => Effect.Effect<void>
  readonly lifetimes?: Lifetimes
}

export const makeHandover = (
  options: HandoverOptions,
): Effect.Effect<Handover, never, PayloadEncryption | Scope.Scope> =>
  Effect.gen(function* () {
    const payloadEncryption = yield* PayloadEncryption
    const fork = yield* FiberSet.makeRuntime<never>()
    const { act, metrics, supervise, now, traces } = options
    const lifetimes = options.lifetimes ?? DEFAULT_LIFETIMES
    const lanes = new Map<string, Lane>(
      options.operators.map((operator) => [
        operator.name,
        { operator, queue: [], pace: new Pace(operator.capabilities, now()), answers: [] },
      ]),
    )
    /** Numbers and texts live here, from the claim until the answer, and nowhere else in memory. */
    const prepared = new WeakMap<Message, Prepared>()
    let turn = 0

    const prepare = (shard: DispatcherShard, message: Message): Effect.Effect<void> => {
      const { accepted } = message
      if (accepted === null) return Effect.sync(() => act(() => shard.messages.postpone(message, 0)))
      return payloadEncryption.decrypt(accepted.sealingKey, accepted.messageId, accepted.sealed).pipe(
        Effect.flatMap((box) => {
          if (box === null) return Effect.succeed(null)
          const payload = decodePayload(box.toString('utf8'))
          return Result.isFailure(payload)
            ? Effect.fail(new DecryptionFailed({ purpose: 'payload' }))
            : Effect.succeed(payload.success)
        }),
        Effect.matchEffect({
          onSuccess: (payload) =>
            Effect.sync(() => {
              if (!shard.handle.isCurrent()) return
              if (payload === null) return act(() => shard.messages.discard(message))
              const { to, text } = payload
              prepared.set(message, {
                submission: {
                  reference: message.id,
                  recipient: message.key,
                  to,
                  text,
                  sender: accepted.sender,
                  parts: accepted.parts,
                  encoding: encodingOf(text),
                  validitySeconds: 1,
                  urgent: accepted.class === 'otp',
                },
                acceptedAt: accepted.at,
                expiresAt: accepted.expiresAt,
                mode: accepted.mode,
                submittedAt: null,
              })
              // It only appends: what follows comes with the acknowledgement.
              shard.messages.claim(message)
            }),
          onFailure: (error) => {
            if (error._tag === 'StorageUnavailable') {
              return Effect.sync(() => act(() => shard.messages.postpone(message, STORAGE_PAUSE_MS)))
            }
            // It was sealed by something else than this hub: it can never be handed over, and was not.
            return Effect.logError('a payload cannot be opened', error).pipe(
              Effect.annotateLogs({ message_id: message.id, sealing_key: accepted.sealingKey }),
              Effect.andThen(Effect.sync(() => act(() => shard.messages.discard(message)))),
            )
          },
        }),
      )
    }

    const answer = (shard: DispatcherShard, message: Message, outcome: SubmitOutcome) => {
      const known = prepared.get(message)
      prepared.delete(message)
      const at = now()
      const deadline = reportDeadline(lifetimes, {
        class: message.state.class,
        sentAt: at,
        scenario: known?.mode === 'test' ? sandboxScenario(known.submission.to) : null,
      })
      if (outcome.type === 'accepted' && known !== undefined) {
        metrics.handedOver(message.state.class, at - known.acceptedAt)
      }
      metrics.answered(message.route, message.state.class, outcome)
      if (outcome.type === 'notWritten') metrics.leaseStopped(1)
      if (known !== undefined && known.submittedAt !== null) {
        traces.answered({
          messageId: message.id,
          class: message.state.class,
          mode: known.mode,
          operator: message.route,
          attempt: message.state.attempts,
          outcome: outcome.type,
          startedAt: known.submittedAt,
        })
      }
      if (shard.handle.isCurrent()) shard.messages.answered(message, outcome, deadline)
    }

    /** Takes down what was answered, in one go. */
    const settle = ({ answers, pace }: Lane) => {
      const some = answers.splice(0)
      act(() => {
        pace.answered(
          some.map(({ outcome }) => outcome),
          now(),
        )
        for (const { message, outcome, shard } of some) answer(shard, message, outcome)
      })
    }

    const handOver = (lane: Lane, sent: ReadonlyArray<Sent>) => {
      const shards = new Set(sent.map(({ shard }) => shard))
      fork(
        supervise(
          lane.operator
            .submit(
              sent.map(({ submission }) => submission),
              () => [...shards].every((shard) => shard.handle.hasLease()),
            )
            .pipe(
              Effect.flatMap((outcomes) => {
                const isFirst = lane.answers.length === 0
                for (const [i, { message, shard }] of sent.entries()) {
                  lane.answers.push({ message, shard, outcome: outcomes[i] ?? { type: 'unknown' } })
                }
                // Others may be answered in the same moment: they are taken down together.
                return isFirst
                  ? Effect.andThen(
                      Effect.yieldNow,
                      Effect.sync(() => settle(lane)),
                    )
                  : Effect.void
              }),
            ),
        ),
      )
    }

    /** Sends off what was acknowledged for an operator. */
    const flush = (lane: Lane) => {
      const at = now()
      const { queue } = lane
      lane.queue = []
      const sent = queue.flatMap(({ message, shard }): ReadonlyArray<Sent> => {
        const known = prepared.get(message)
        if (known === undefined || !shard.handle.isCurrent()) return []
        if (traces.has(message.id)) known.submittedAt = traces.now()
        const validitySeconds = Math.max(1, Math.ceil((known.expiresAt - at) / 1000))
        return [{ message, shard, submission: { ...known.submission, validitySeconds } }]
      })
      if (lane.operator.capabilities.submitsIndividually === true) {
        for (const one of sent) handOver(lane, [one])
      } else if (sent.length > 0) {
        handOver(lane, sent)
      }
    }

    /** Of each lane what the operator has room for, the more urgent first, and the shards in turn. */
    const take = ({ operator, pace }: Lane, shards: ReadonlyArray<DispatcherShard>) => {
      const at = now()
      const taken: Array<{ readonly shard: DispatcherShard; readonly message: Message }> = []
      let underWay = 0
      for (const shard of shards) underWay += shard.messages.handoversAt(operator.name)
      for (let lane = 0; lane < LANES; lane++) {
        let free = pace.room(lane, underWay, at)
        let empty = 0
        while (free > 0 && empty < shards.length && pace.mayTake(lane, at)) {
          const shard = shards[turn++ % shards.length]!
          const message = shard.messages.take(lane, operator.name)
          if (message === null) {
            empty++
            continue
          }
          empty = 0
          free--
          underWay++
          pace.took(message.accepted?.parts ?? 1)
          taken.push({ shard, message })
        }
      }
      return taken
    }

    return {
      dispatch: () => {
        for (const lane of lanes.values()) {
          if (lane.queue.length > 0) flush(lane)
        }
        if (!options.mayBegin()) return
        const shards = options.shards()
        if (shards.length === 0) return
        // Taken first and begun afterwards: beginning one settles, which comes back here.
        for (const lane of lanes.values()) {
          for (const { message, shard } of take(lane, shards)) fork(supervise(prepare(shard, message)))
        }
      },
      submit: (shard, message) => {
        lanes.get(message.route)?.queue.push({ shard, message })
      },
      inFlight: () => options.shards().reduce((sum, shard) => sum + shard.messages.handovers, 0),
    }
  })
