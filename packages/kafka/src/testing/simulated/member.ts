/**
 * The member of a simulated consumer group. It behaves like the member of production
 * (`consumer/member.ts`), with the same lease, but its requests go through the host. So a process
 * that stands still keeps its old assignment, and learns from the broker that it has lost it.
 */
import { backoffMs, PATIENT } from '@hub/flow'
import { Cause, Effect, Exit, Fiber } from 'effect'
import {
  type CurrentAssignment,
  NO_ASSIGNMENT,
  reportedShards,
  retainedShards,
} from '../../consumer/assignor.ts'
import { Lease } from '../../consumer/lease.ts'
import { now } from '../../consumer/timing.ts'
import { partitionKey } from '../../partition-key.ts'
import {
  type GroupControl,
  type GroupHandler,
  type GroupOptions,
  type IncomingRecord,
  KafkaUnavailable,
  type Position,
} from '../../port.ts'
import { beforeNewer } from '../../records/newer-schema.ts'
import type { GroupError, SimulatedBroker } from './broker.ts'
import type { SimulatedHost, SimulatedRequest } from './host.ts'

/** The values of production: `consumer/member.ts` and `consumer/consumer-instance.ts`. */
const SESSION_TIMEOUT_MS = 6000
const REBALANCE_TIMEOUT_MS = 10_000
const HEARTBEAT_MS = 300
const REVOKE_WITHIN_MS = 2500
const CLOSE_REVOKE_WITHIN_MS = 1500
const REQUEST_TIMEOUT_MS = 5000
const JOIN_TIMEOUT_MS = REBALANCE_TIMEOUT_MS + SESSION_TIMEOUT_MS + 4000
const FETCH_RETRY_MS = 300
/** Records in one fetch. */
const MAX_BATCH = 500

interface PartitionState {
  readonly topic: string
  readonly partition: number
  position: number
  seeks: number
  isPaused: boolean
  isFetching: boolean
  isRetrying: boolean
  failures: number
}

/** Runs an effect of the handler in the process of the member. */
type RunHandler = (effect: Effect.Effect<void, unknown>) => Fiber.Fiber<void, unknown>

const unavailable = (reason: 'refused' | 'timeout', detail: string) =>
  new KafkaUnavailable({ reason, detail })

export class SimulatedMember {
  readonly #broker: SimulatedBroker
  readonly #host: SimulatedHost
  readonly #options: GroupOptions
  readonly #handler: GroupHandler
  readonly #run: RunHandler
  readonly #lease: Lease
  readonly #partitions = new Map<string, PartitionState>()
  readonly #batches = new Map<string, Fiber.Fiber<void, unknown>>()
  #assignment: CurrentAssignment = NO_ASSIGNMENT
  #isNewMember: boolean
  #memberId: string | null = null
  #generation = -1
  /** Rises with every join, so that answers to older requests are ignored. */
  #joins = 0
  #revocations = 0
  #isRevoked = true
  #isJoining = false
  #wantsJoin = false
  #failures = 0
  #isClosed = false
  #isBeating = false
  #onFirstJoin: ((result: Exit.Exit<void, KafkaUnavailable>) => void) | null = null
  #cancelHeartbeat = () => {}
  readonly #unwatch: () => void
  #isWoken = false

  constructor(
    broker: SimulatedBroker,
    host: SimulatedHost,
    options: GroupOptions,
    handler: GroupHandler,
    run: RunHandler,
  ) {
    this.#broker = broker
    this.#host = host
    this.#options = options
    this.#handler = handler
    this.#run = run
    this.#lease = new Lease(options.sessionTimeoutMs ?? SESSION_TIMEOUT_MS)
    this.#isNewMember = options.standbyTopic !== undefined
    const topics = new Set(options.topics)
    this.#unwatch = broker.watch((topic) => {
      if (this.#isWoken || this.#isClosed || !topics.has(topic)) return
      this.#isWoken = true
      host.wake(() => {
        this.#isWoken = false
        this.#fetchAll()
      })
    })
  }

  /** Joins. It tries once, so that the caller learns that the broker is unavailable. */
  start(onFirstJoin: (result: Exit.Exit<void, KafkaUnavailable>) => void): void {
    this.#onFirstJoin = onFirstJoin
    this.#beat()
    this.#rejoin()
  }

  isHealthy(): boolean {
    return !this.#isClosed && !this.#lease.isRebalancing()
  }

  /** Finishes the work in progress and leaves the group. */
  close(onClosed: () => void): void {
    this.#isClosed = true
    this.#onFirstJoin = null
    this.#joins++
    this.#revoke(CLOSE_REVOKE_WITHIN_MS, () => {
      this.#unwatch()
      this.#cancelHeartbeat()
      this.#assignment = NO_ASSIGNMENT
      this.#partitions.clear()
      const id = this.#memberId
      if (id === null) return onClosed()
      this.#request({
        name: 'leave',
        describe: () => id,
        serve: (answer) => answer(this.#broker.leave(this.#options.group, id)),
        onAnswer: onClosed,
        onFailure: onClosed,
      })
    })
  }

  readonly control: GroupControl = {
    seek: ({ offset, partition, topic }) => {
      const state = this.#stateOf(topic, partition)
      if (state === undefined) return
      state.position = Math.max(0, offset)
      state.seeks++
      this.#fetch(state)
    },
    pause: (topic, partition) => {
      const state = this.#stateOf(topic, partition)
      if (state !== undefined) state.isPaused = true
    },
    resume: (topic, partition) => {
      const state = this.#stateOf(topic, partition)
      if (state === undefined) return
      state.isPaused = false
      this.#fetch(state)
    },
    owns: (shard) => this.#assignment.shards.has(shard),
    takeOver: () => {
      if (!this.#isNewMember || this.#assignment.standby.size === 0) return
      this.#isNewMember = false
      this.#rejoin()
    },
    hasLease: () => this.#lease.mayStartWork(),
    commit: (positions) => Effect.suspend(() => this.#commit(positions)),
    offsets: (shards) =>
      this.#ask('offsets', () =>
        this.#options.topics.flatMap((topic) =>
          shards.map((partition) => ({
            topic,
            partition,
            committed: this.#broker.committed(this.#options.group, topic, partition),
            low: 0,
            high: this.#broker.end(topic, partition),
          })),
        ),
      ),
    offsetRanges: (topic) =>
      this.#ask('offsets', () =>
        Array.from({ length: this.#broker.partitions }, (_, partition) => ({
          partition,
          low: 0,
          high: this.#broker.end(topic, partition),
        })),
      ),
    ends: (topic) =>
      this.#ask('offsets', () => {
        const partitions = Array.from({ length: this.#broker.partitions }, (_, partition) => partition)
        return new Map(partitions.map((partition) => [partition, this.#broker.end(topic, partition)]))
      }),
  }

  // ---- requests

  #request<A>(request: Omit<SimulatedRequest<A>, 'timeoutMs'> & { readonly timeoutMs?: number }): void {
    this.#host.request({ timeoutMs: REQUEST_TIMEOUT_MS, ...request })
  }

  #ask<A>(name: SimulatedRequest<A>['name'], read: () => A): Effect.Effect<A, KafkaUnavailable> {
    return Effect.callback((resume) => {
      this.#request({
        name,
        describe: () => this.#options.group,
        serve: (answer: (value: A) => void) => answer(read()),
        onAnswer: (value) => resume(Effect.succeed(value)),
        onFailure: (reason) => resume(Effect.fail(unavailable(reason, name))),
      })
    })
  }

  #commit(positions: ReadonlyArray<Position>): Effect.Effect<void, KafkaUnavailable> {
    const owned = positions.filter(
      ({ partition, topic }) =>
        this.#assignment.shards.has(partition) && this.#stateOf(topic, partition) !== undefined,
    )
    if (owned.length === 0) return Effect.void
    const id = this.#memberId
    if (id === null || !this.#lease.mayFinishWork())
      return Effect.fail(unavailable('refused', 'the lease has ended'))
    const generation = this.#generation
    return Effect.callback((resume) => {
      this.#request({
        name: 'commit',
        describe: () =>
          owned.map(({ offset, partition, topic }) => `${topic}/${partition}@${offset}`).join(' '),
        serve: (answer: (value: 'ok' | GroupError) => void) =>
          answer(this.#broker.commit(this.#options.group, id, generation, owned)),
        onAnswer: (result) =>
          resume(
            result === 'ok'
              ? Effect.void
              : Effect.fail(new KafkaUnavailable({ reason: 'rejected', detail: result })),
          ),
        onFailure: (reason) => resume(Effect.fail(unavailable(reason, 'commit'))),
      })
    })
  }

  // ---- membership

  #beat(): void {
    const every = this.#options.heartbeatMs ?? HEARTBEAT_MS
    this.#cancelHeartbeat = this.#host.after(every, () => {
      if (this.#isClosed) return
      this.#beat()
      const id = this.#memberId
      // As the watchdog of production.
      const isSilent =
        this.#lease.msSinceHeartbeat() > 2 * (this.#options.sessionTimeoutMs ?? SESSION_TIMEOUT_MS)
      if (isSilent && !this.#lease.isRebalancing()) {
        this.#lease.end()
        return this.#rejoin()
      }
      if (id === null || this.#isBeating || this.#lease.isRebalancing()) return
      const sentAt = now()
      const generation = this.#generation
      const joins = this.#joins
      this.#isBeating = true
      this.#request({
        name: 'heartbeat',
        describe: () => id,
        serve: (answer: (value: 'ok' | GroupError) => void) =>
          answer(this.#broker.heartbeat(this.#options.group, id, generation)),
        onAnswer: (result) => {
          this.#isBeating = false
          if (joins !== this.#joins || this.#isClosed) return
          if (result === 'ok') return this.#lease.extend(sentAt)
          this.#onGroupError(result)
          this.#rejoin()
        },
        onFailure: () => {
          this.#isBeating = false
        },
      })
    })
  }

  #onGroupError(error: GroupError): void {
    // The broker has removed this member: another member may own the shards already.
    if (error !== 'REBALANCE_IN_PROGRESS') this.#lease.end()
    if (error === 'UNKNOWN_MEMBER_ID') this.#memberId = null
  }

  #rejoin(): void {
    if (this.#isClosed) return
    if (this.#isJoining) {
      this.#wantsJoin = true
      return
    }
    this.#isJoining = true
    this.#lease.beginRebalance()
    this.#revoke(REVOKE_WITHIN_MS, () => this.#join())
  }

  #joinAgain(): void {
    this.#failures++
    this.#host.after(backoffMs(PATIENT, this.#failures), () => {
      if (!this.#isClosed) this.#join()
    })
  }

  #join(): void {
    if (this.#isClosed) return
    const joins = ++this.#joins
    const { group } = this.#options
    const isCurrent = () => joins === this.#joins && !this.#isClosed
    const reported = reportedShards(this.#assignment, this.#isNewMember)
    const request = {
      reported: { generation: reported.generation, shards: [...reported.shards] },
      sessionTimeoutMs: this.#options.sessionTimeoutMs ?? SESSION_TIMEOUT_MS,
      rebalanceTimeoutMs: REBALANCE_TIMEOUT_MS,
    }
    const onFailure = (reason: 'refused' | 'timeout') => {
      if (!isCurrent()) return
      if (this.#onFirstJoin !== null) return this.#fail(reason)
      this.#joinAgain()
    }
    const onError = (error: GroupError) => {
      this.#onGroupError(error)
      this.#joinAgain()
    }
    this.#request({
      name: 'join',
      describe: () => `${group} as ${this.#memberId ?? 'a new member'}`,
      timeoutMs: JOIN_TIMEOUT_MS,
      serve: (answer: (value: { memberId: string; generation: number } | GroupError) => void) =>
        this.#broker.join(group, this.#memberId, request, answer),
      onFailure,
      onAnswer: (joined) => {
        if (!isCurrent()) return
        if (typeof joined === 'string') return onError(joined)
        this.#memberId = joined.memberId
        const syncSentAt = now()
        this.#request({
          name: 'sync',
          describe: () => `${joined.memberId} in generation ${joined.generation}`,
          serve: (answer: (value: ReturnType<SimulatedBroker['sync']>) => void) =>
            answer(this.#broker.sync(group, joined.memberId, joined.generation)),
          onFailure,
          onAnswer: (assigned) => {
            if (!isCurrent()) return
            if (typeof assigned === 'string') return onError(assigned)
            this.#onJoined(joined.generation, assigned, syncSentAt)
          },
        })
      },
    })
  }

  #fail(reason: 'refused' | 'timeout'): void {
    const failed = this.#onFirstJoin
    this.#onFirstJoin = null
    this.close(() => failed?.(Exit.fail(unavailable(reason, 'joining the group'))))
  }

  #onJoined(
    generation: number,
    { shards, standby }: { readonly shards: ReadonlyArray<number>; readonly standby: ReadonlyArray<number> },
    syncSentAt: number,
  ): void {
    const { group, standbyTopic, topics } = this.#options
    const assignment = { generation, shards: new Set(shards), standby: new Set(standby) }
    const retained = retainedShards(this.#assignment, assignment)
    this.#assignment = assignment
    this.#generation = generation
    if (shards.length > 0) this.#isNewMember = false
    const previous = new Map(this.#partitions)
    this.#partitions.clear()
    for (const topic of topics) {
      for (const partition of topic === standbyTopic ? [...shards, ...standby] : shards) {
        const key = partitionKey(topic, partition)
        const known = retained.has(partition) ? previous.get(key) : undefined
        // A request of the previous assignment may be in progress, so its answer must find no state.
        this.#partitions.set(key, {
          topic,
          partition,
          position: known?.position ?? Math.max(0, this.#broker.committed(group, topic, partition)),
          seeks: 0,
          isPaused: known?.isPaused ?? false,
          isFetching: false,
          isRetrying: false,
          failures: 0,
        })
      }
    }
    this.#lease.grant(syncSentAt)
    this.#isRevoked = false
    this.#isJoining = false
    this.#failures = 0
    this.#handler.onAssigned({ generation, shards, standby, retained }, this.control)
    this.#onFirstJoin?.(Exit.void)
    this.#onFirstJoin = null
    if (this.#wantsJoin) {
      this.#wantsJoin = false
      return this.#rejoin()
    }
    this.#fetchAll()
  }

  /** Ends the work for the current assignment. Runs `onRevoking` once between two joins. */
  #revoke(withinMs: number, onRevoked: () => void): void {
    this.#lease.beginRebalance()
    if (this.#isRevoked) return onRevoked()
    this.#isRevoked = true
    this.#revocations++
    const revoking = this.#run(this.#handler.onRevoking)
    const work = [revoking, ...this.#batches.values()]
    let left = work.length
    const finish = () => {
      if (onRevoked === noop) return
      cancel()
      const done = onRevoked
      onRevoked = noop
      for (const fiber of work) fiber.interruptUnsafe()
      done()
    }
    const cancel = this.#host.after(withinMs, finish)
    for (const fiber of work) {
      fiber.addObserver(() => {
        left--
        if (left === 0) finish()
      })
    }
  }

  // ---- partitions

  #stateOf(topic: string, partition: number): PartitionState | undefined {
    return this.#partitions.get(partitionKey(topic, partition))
  }

  #fetchAll(): void {
    const states = [...this.#partitions.values()]
    // No partition waits for another one forever.
    const first = states.length === 0 ? 0 : this.#host.choose(states.length)
    for (let i = 0; i < states.length; i++) this.#fetch(states[(first + i) % states.length]!)
  }

  #fetch(state: PartitionState): void {
    const { partition, topic } = state
    if (this.#isClosed || this.#isRevoked || state.isPaused || state.isFetching || state.isRetrying) return
    if (this.#batches.has(partitionKey(topic, partition))) return
    if (this.#batches.size >= (this.#options.concurrency ?? 1)) return
    // A fetch waits in the broker until there are records. Only its end matters here.
    if (this.#broker.end(topic, partition) <= state.position) return
    const from = state.position
    const { seeks } = state
    const revocations = this.#revocations
    state.isFetching = true
    const limit = this.#host.choose(4) === 0 ? 1 + this.#host.choose(5) : MAX_BATCH
    this.#request({
      name: 'fetch',
      describe: () => `${topic}/${partition} from ${from}`,
      serve: (answer: (value: ReadonlyArray<IncomingRecord>) => void) =>
        answer(this.#broker.fetch(topic, partition, from, limit, this.#host.schemaVersion ?? 'current')),
      onAnswer: (records) => {
        state.isFetching = false
        if (revocations !== this.#revocations || this.#stateOf(topic, partition) !== state) return
        if (state.seeks !== seeks || state.isPaused || this.#isClosed) return this.#fetch(state)
        this.#deliver(state, records)
      },
      onFailure: () => {
        state.isFetching = false
        this.#retry(state, FETCH_RETRY_MS)
      },
    })
  }

  #deliver(state: PartitionState, fetched: ReadonlyArray<IncomingRecord>): void {
    const { partition, seeks, topic } = state
    if (this.#batches.size >= (this.#options.concurrency ?? 1)) return
    const records = beforeNewer(fetched)
    if (records.length === 0) {
      if (fetched.length > 0) this.#retry(state, backoffMs(PATIENT, ++state.failures))
      return
    }
    const key = partitionKey(topic, partition)
    const revocations = this.#revocations
    const fiber = this.#run(this.#handler.onBatch(topic, partition, records))
    this.#batches.set(key, fiber)
    fiber.addObserver((exit) => {
      this.#batches.delete(key)
      if (revocations === this.#revocations && this.#stateOf(topic, partition) === state) {
        if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
          this.#retry(state, backoffMs(PATIENT, ++state.failures))
        } else if (Exit.isSuccess(exit)) {
          state.failures = 0
          if (state.seeks === seeks) state.position = records.at(-1)!.offset + 1
        }
      }
      this.#fetchAll()
    })
  }

  #retry(state: PartitionState, ms: number): void {
    state.isRetrying = true
    this.#host.after(ms, () => {
      state.isRetrying = false
      if (this.#stateOf(state.topic, state.partition) === state) this.#fetch(state)
    })
  }
}

const noop = () => {}
