/**
 * A member of a consumer group. It joins, takes part in rebalances, commits offsets, and replaces
 * its consumer instance when that is stuck. The lease, the reading of partitions, the assignment
 * and the detection of a stuck consumer have their own files in this folder.
 */
import { backoffMs, PATIENT } from '@hub/flow'
import { Effect, type Exit } from 'effect'
import type { ConsumerGroupJoinEvent } from 'kafkajs'
import type { Fork, KafkaConnection } from '../connection/client.ts'
import { type FailureReason, reasonOf } from '../connection/errors.ts'
import type { InnerGroup } from '../kafkajs-patches/internals.ts'
import { leaveFor } from '../kafkajs-patches/leave-group-for.ts'
import { handleOffsetOutOfRange } from '../kafkajs-patches/offset-out-of-range.ts'
import { REBALANCE_IN_PROGRESS, rejoinOnRequest } from '../kafkajs-patches/request-rejoin.ts'
import { trackSendTimes } from '../kafkajs-patches/send-times.ts'
import {
  type GroupControl,
  type GroupHandler,
  type GroupOptions,
  KafkaUnavailable,
  type PartitionOffsets,
  type Position,
} from '../port.ts'
import { AdminConnection } from './admin-connection.ts'
import { NO_ASSIGNMENT, reportedShards, retainedShards, shardsOf } from './assignor.ts'
import {
  type ConsumerInstance,
  createConsumerInstance,
  REBALANCE_TIMEOUT_MS,
  REQUEST_TIMEOUT_MS,
  runConsumerInstance,
} from './consumer-instance.ts'
import { Fetcher } from './fetcher.ts'
import { Lease } from './lease.ts'
import { readMember, removeMember, writeMember } from './member-file.ts'
import { PartitionReader } from './partition-reader.ts'
import { observeStop } from './metrics.ts'
import { now, waitAtMost } from './timing.ts'
import { LAG_CHECK_MS, Watchdog, type WatchdogOptions } from './watchdog.ts'

export interface ConsumerGroupsOptions {
  readonly connection: KafkaConnection
  /** For tests; the defaults are for production. */
  readonly watchdog?: WatchdogOptions
}

/** Runs the effects of the handler from callbacks, in the context of `join`. */
interface EffectRunner {
  readonly fork: Fork
  readonly exit: (
    effect: Effect.Effect<void, unknown>,
    signal: AbortSignal,
  ) => Promise<Exit.Exit<void, unknown>>
}

/** The broker's minimum (`group.min.session.timeout.ms`): shards of a dead member move soon. */
const SESSION_TIMEOUT_MS = 6000
/**
 * A heartbeat reports a rebalance. All shards stop until the last member has learned of it. A heartbeat
 * wakes the process twice and the broker about five times.
 */
const HEARTBEAT_MS = 500
/** Time limit of `onRevoking` and of running batches before a join. */
const REVOKE_WITHIN_MS = 2500
/** The same when the scope closes. Together with the leave, closing takes less than 3 s. */
const CLOSE_REVOKE_WITHIN_MS = 1500
const LEAVE_WITHIN_MS = 1000
/** A join that takes longer than the wait for the slowest member is stuck. */
const JOIN_TIMEOUT_MS = REBALANCE_TIMEOUT_MS + SESSION_TIMEOUT_MS + 4000
const WATCHDOG_INTERVAL_MS = 500
/** An end of a log that a fetch returned so long ago is asked for again. */
const ENDS_KNOWN_MS = 5000
/** Of one fetch. */
const MAX_BYTES_PER_PARTITION = 512 * 1024
/** After so many failures in a row a member that has not joined is unhealthy. */
const UNHEALTHY_AFTER_FAILURES = 3

const noop = () => {}

export class Member {
  readonly #connection: KafkaConnection
  readonly #options: GroupOptions
  readonly #handler: GroupHandler
  readonly #run: EffectRunner
  readonly #sessionTimeoutMs: number
  readonly #heartbeatMs: number
  readonly #lagCheckMs: number
  readonly #lease: Lease
  readonly #reader: PartitionReader
  readonly #watchdog: Watchdog
  readonly #admin: AdminConnection

  #instance: ConsumerInstance | undefined
  #assignment = NO_ASSIGNMENT
  /** It may get its shards on standby, until it owns a shard. */
  #isNewMember: boolean
  #memberId: string | undefined
  /** The revocation in progress. */
  #revoking: Promise<void> | undefined
  /** Nothing has been assigned since the last revocation. */
  #isRevoked = true
  /** Failed instances in a row. */
  #failures = 0
  #isClosed = false
  /** Settles `start`. */
  #firstJoin: { readonly resolve: () => void; readonly reject: (error: KafkaUnavailable) => void } | undefined
  readonly #intervals: Array<NodeJS.Timeout> = []
  #relaunchTimer: NodeJS.Timeout | undefined

  constructor(options: ConsumerGroupsOptions, group: GroupOptions, handler: GroupHandler, run: EffectRunner) {
    this.#connection = options.connection
    this.#options = group
    this.#handler = handler
    this.#run = run
    this.#sessionTimeoutMs = group.sessionTimeoutMs ?? SESSION_TIMEOUT_MS
    this.#heartbeatMs = group.heartbeatMs ?? HEARTBEAT_MS
    this.#lagCheckMs = options.watchdog?.lagCheckMs ?? LAG_CHECK_MS
    this.#isNewMember = group.standbyTopic !== undefined
    this.#memberId = this.#readMemberFile()
    this.#admin = new AdminConnection(options.connection, run.fork)
    this.#lease = new Lease(this.#sessionTimeoutMs)
    this.#reader = new PartitionReader({
      onBatch: (topic, partition, records) => handler.onBatch(topic, partition, records),
      run: run.exit,
      onChange: () => this.#instance?.fetcher?.interrupt(),
      isRebalancing: () => this.#lease.isRebalancing(),
      onReadAgain: observeStop,
      log: (message, fields) => this.#log(message, fields),
    })
    this.#watchdog = new Watchdog(
      {
        lease: this.#lease,
        reader: this.#reader,
        sessionTimeoutMs: this.#sessionTimeoutMs,
        joinTimeoutMs: JOIN_TIMEOUT_MS,
        ends: (topic) => this.#ends(topic),
      },
      options.watchdog,
    )
  }

  /** Joins for the first time. It tries once, so the caller learns that Kafka is unavailable. */
  async start(): Promise<void> {
    const joined = new Promise<void>((resolve, reject) => {
      this.#firstJoin = { resolve, reject }
    })
    const limit = setTimeout(
      () => this.#firstJoin?.reject(new KafkaUnavailable({ reason: 'timeout', detail: 'joining the group' })),
      JOIN_TIMEOUT_MS,
    )
    this.#intervals.push(
      setInterval(() => this.#sendHeartbeat(), this.#heartbeatMs),
      setInterval(() => this.#replaceIfStuck(), WATCHDOG_INTERVAL_MS),
      setInterval(() => void this.#replaceIfLagging(), this.#lagCheckMs),
    )
    this.#launch()
    try {
      await joined
    } catch (error) {
      await this.close()
      throw error
    } finally {
      clearTimeout(limit)
      this.#firstJoin = undefined
    }
  }

  isHealthy(): boolean {
    if (this.#isClosed) return false
    const rebalancingMs = this.#lease.rebalancingMs()
    return rebalancingMs === undefined
      ? this.#lease.msSinceHeartbeat() < this.#sessionTimeoutMs
      : rebalancingMs < JOIN_TIMEOUT_MS && this.#failures < UNHEALTHY_AFTER_FAILURES
  }

  /** Finishes the work in progress and leaves the group, in less than 3 s in every case. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const interval of this.#intervals) clearInterval(interval)
    clearTimeout(this.#relaunchTimer)
    const instance = this.#instance
    await this.#revoke(CLOSE_REVOKE_WITHIN_MS)
    this.#reader.stopRetries()
    if (instance !== undefined && !instance.isStopped) {
      instance.isStopped = true
      await waitAtMost(LEAVE_WITHIN_MS, instance.consumer.disconnect())
      instance.client.destroy()
      // kafkajs clears the id when it has left. Otherwise the next process leaves for it.
      if (instance.group?.memberId === null && this.#options.memberFile !== undefined)
        removeMember(this.#options.memberFile)
    }
    this.#assignment = NO_ASSIGNMENT
    this.#admin.close()
  }

  // ---- consumer instances

  #launch(): void {
    const instance = createConsumerInstance(
      {
        connection: this.#connection,
        options: this.#options,
        sessionTimeoutMs: this.#sessionTimeoutMs,
        heartbeatMs: this.#heartbeatMs,
        firstBrokerIndex: this.#failures,
        fork: this.#run.fork,
        reportedShards: () => reportedShards(this.#assignment, this.#isNewMember),
      },
      {
        beforeJoin: (joining, group) => this.#beforeJoin(joining, group),
        onJoined: (joined, event) => this.#onJoined(joined, event),
        onHeartbeat: (alive, generation) => this.#onHeartbeat(alive, generation),
        onCrash: (crashed, error) => this.#replace(crashed, 'it crashed', reasonOf(error)),
      },
    )
    this.#instance = instance
    this.#lease.restartRebalance()
    runConsumerInstance(instance, this.#options, (batch) => this.#reader.deliver(instance, batch)).catch(
      (error: unknown) => this.#replace(instance, 'its start failed', reasonOf(error)),
    )
  }

  /** Stops an instance, and launches another one after a delay. */
  #replace(
    instance: ConsumerInstance,
    cause: string,
    { detail, reason }: Pick<FailureReason, 'detail' | 'reason'>,
  ): void {
    if (instance.isStopped || this.#isClosed) return
    instance.isStopped = true
    this.#reader.dropFetched()
    this.#lease.end()
    this.#lease.beginRebalance()
    // Requests to a hung broker fail now. The next instance leaves the group for this one.
    instance.client.destroy()
    instance.consumer.disconnect().catch(noop)
    if (this.#firstJoin !== undefined) return this.#firstJoin.reject(new KafkaUnavailable({ reason, detail }))
    this.#failures++
    const delayMs = backoffMs(PATIENT, this.#failures)
    this.#log('consumer: the kafkajs consumer failed; another one replaces it after a delay', {
      why: cause,
      detail,
      failures: this.#failures,
      delayMs,
    })
    this.#relaunchTimer = setTimeout(() => {
      if (!this.#isClosed) this.#launch()
    }, delayMs)
  }

  #replaceIfStuck(): void {
    const instance = this.#instance
    if (instance === undefined || instance.isStopped || this.#isClosed) return
    const cause = this.#watchdog.check()
    if (cause !== undefined) this.#replace(instance, cause, { reason: 'timeout', detail: 'stuck' })
  }

  async #replaceIfLagging(): Promise<void> {
    const instance = this.#instance
    if (instance === undefined || instance.isStopped || this.#lease.isRebalancing()) return
    const cause = await this.#watchdog.checkLag()
    if (cause !== undefined) this.#replace(instance, cause, { reason: 'timeout', detail: 'stuck' })
  }

  // ---- rebalances

  async #beforeJoin(instance: ConsumerInstance, group: InnerGroup): Promise<void> {
    // kafkajs does not retry an error with this flag.
    if (instance.isStopped || this.#isClosed)
      throw Object.assign(new Error('The consumer instance was stopped.'), { retriable: false })
    if (instance.group === undefined) {
      instance.group = group
      this.#patch(instance, group)
      await this.#leavePreviousMember(group)
    }
    await this.#revoke(REVOKE_WITHIN_MS)
    instance.isRejoinRequested = false
    instance.sendTimes?.joinStarted()
  }

  #patch(instance: ConsumerInstance, group: InnerGroup): void {
    rejoinOnRequest(group, () => instance.isRejoinRequested)
    instance.sendTimes = trackSendTimes(group, (error) => this.#onHeartbeatError(instance, error))
    instance.fetcher = new Fetcher(group, this.#reader, {
      maxBytesPerPartition: this.#options.maxBytesPerPartition ?? MAX_BYTES_PER_PARTITION,
      gatherMs: this.#options.gatherMs ?? (() => 0),
    })
    handleOffsetOutOfRange(group, (first) => this.#reader.handleOutOfRange(first))
  }

  /** Ends the session of the previous process or instance, for which the group would wait. */
  async #leavePreviousMember(group: InnerGroup): Promise<void> {
    const memberId = this.#memberId
    if (memberId === undefined) return
    const { groupId } = group
    const leave = async () =>
      leaveFor(await group.cluster.findGroupCoordinator({ groupId }), groupId, memberId)
    await waitAtMost(LEAVE_WITHIN_MS, leave())
  }

  /**
   * Ends the work for the current assignment: from now on no batch is delivered, and `onRevoking`
   * and running batches have this time to end. Runs once between two joins.
   */
  #revoke(withinMs: number): Promise<void> {
    if (this.#revoking !== undefined) return this.#revoking
    if (this.#isRevoked) return Promise.resolve()
    this.#reader.dropFetched()
    this.#lease.beginRebalance()
    this.#revoking = this.#finishWork(withinMs).finally(() => {
      this.#isRevoked = true
      this.#revoking = undefined
    })
    return this.#revoking
  }

  async #finishWork(withinMs: number): Promise<void> {
    const controller = new AbortController()
    const revoking = this.#run.exit(this.#handler.onRevoking, controller.signal)
    const batches = this.#reader.runningBatches()
    await waitAtMost(withinMs, Promise.all([revoking, ...batches.map(({ ended }) => ended)]))
    controller.abort()
    for (const batch of batches) batch.abort()
  }

  #onJoined(
    instance: ConsumerInstance,
    { memberAssignment, memberId }: ConsumerGroupJoinEvent['payload'],
  ): void {
    const { group, sendTimes } = instance
    if (instance.isStopped || group === undefined || sendTimes === undefined) return
    const generation = group.generationId ?? -1
    const { shards, standby } = shardsOf(memberAssignment, this.#options.standbyTopic)
    const assignment = { generation, shards, standby }
    const retained = retainedShards(this.#assignment, assignment)
    this.#assignment = assignment
    if (shards.size > 0) this.#isNewMember = false
    this.#memberId = memberId
    this.#writeMemberFile(memberId)
    this.#reader.assign(memberAssignment, retained, now() - (this.#lease.rebalancingMs() ?? 0))
    this.#lease.grant(sendTimes.syncGroup())
    this.#isRevoked = false
    this.#failures = 0
    const sorted = (set: ReadonlySet<number>) => [...set].sort((a, b) => a - b)
    try {
      this.#handler.onAssigned(
        { generation, shards: sorted(shards), standby: sorted(standby), retained },
        this.control,
      )
    } catch (error) {
      const detail = error instanceof Error ? error.name : typeof error
      return this.#replace(instance, 'onAssigned failed', { reason: 'rejected', detail })
    }
    this.#reader.begin()
    this.#firstJoin?.resolve()
  }

  // ---- heartbeats

  /** kafkajs sends heartbeats only between batches. This one is also sent during a batch. */
  #sendHeartbeat(): void {
    const group = this.#instance?.group
    if (group === undefined || this.#lease.isRebalancing() || this.#instance?.isStopped === true) return
    // Less than the interval: kafkajs would skip a heartbeat that is a millisecond early.
    group.heartbeat({ interval: 0.8 * this.#heartbeatMs }).catch(noop)
  }

  #onHeartbeat(instance: ConsumerInstance, generation: number): void {
    if (instance.isStopped || generation !== this.#assignment.generation) return
    if (instance.sendTimes !== undefined) this.#lease.extend(instance.sendTimes.heartbeat())
  }

  #onHeartbeatError(instance: ConsumerInstance, error: unknown): void {
    if (instance.isStopped) return
    const { type } = error as { readonly type?: string }
    if (type === 'UNKNOWN_MEMBER_ID' || type === 'ILLEGAL_GENERATION') {
      // The broker has removed this member: another member may own the shards already.
      this.#lease.end()
    } else if (type !== REBALANCE_IN_PROGRESS) return
    // kafkajs rejoins with its own next heartbeat, so the batch should end soon.
    this.#revoke(REVOKE_WITHIN_MS).catch(noop)
  }

  // ---- the interface for the handler

  readonly control: GroupControl = {
    seek: (at) => this.#reader.seek(at),
    pause: (topic, partition) => this.#reader.setPaused(topic, partition, true),
    resume: (topic, partition) => this.#reader.setPaused(topic, partition, false),
    owns: (shard) => this.#assignment.shards.has(shard),
    takeOver: () => this.#takeOver(),
    hasLease: () => this.#lease.mayStartWork(),
    commit: (positions) => Effect.suspend(() => this.#commit(positions)),
    offsets: (shards) => this.#request(() => this.#offsets(new Set(shards))),
    offsetRanges: (topic) => this.#request(() => this.#admin.offsetRanges(topic)),
    ends: (topic) => this.#request(() => this.#ends(topic)),
  }

  #takeOver(): void {
    if (!this.#isNewMember || this.#assignment.standby.size === 0) return
    this.#isNewMember = false
    if (this.#instance !== undefined) this.#instance.isRejoinRequested = true
  }

  #commit(positions: ReadonlyArray<Position>): Effect.Effect<void, KafkaUnavailable> {
    const owned = positions.filter(
      ({ topic, partition }) =>
        this.#assignment.shards.has(partition) && this.#reader.isAssigned(topic, partition),
    )
    if (owned.length === 0) return Effect.void
    const instance = this.#instance
    const group = instance?.group
    // The broker accepts commits of a member that it has removed, so they must be rejected here.
    if (group === undefined || instance?.isStopped !== false || !this.#lease.mayFinishWork()) {
      return Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'the lease has ended' }))
    }
    const topics = [...Map.groupBy(owned, ({ topic }) => topic)].map(([topic, offsets]) => ({
      topic,
      partitions: offsets.map(({ partition, offset }) => ({ partition, offset: String(offset) })),
    }))
    return this.#request(() => group.commitOffsets({ topics }))
  }

  /** The fetches of an idle member answer it. The broker is asked if they do not. */
  async #ends(topic: string): Promise<ReadonlyMap<number, number>> {
    const known = this.#reader.knownEnds(topic, ENDS_KNOWN_MS)
    if (known !== undefined) return known
    const ranges = await this.#admin.offsetRanges(topic)
    return new Map(ranges.map(({ high, partition }) => [partition, high]))
  }

  async #offsets(shards: ReadonlySet<number>): Promise<ReadonlyArray<PartitionOffsets>> {
    const { group: groupId, topics } = this.#options
    const [committed, ranges] = await Promise.all([
      this.#admin.committedOffsets(groupId),
      Promise.all(topics.map((topic) => this.#admin.offsetRanges(topic))),
    ])
    return topics.flatMap((topic, index) => {
      const partitions = committed.find((one) => one.topic === topic)?.partitions ?? []
      const offsets = new Map(partitions.map(({ offset, partition }) => [partition, Number(offset)]))
      return ranges[index]!.filter(({ partition }) => shards.has(partition)).map((range) => ({
        topic,
        ...range,
        committed: offsets.get(range.partition) ?? -1,
      }))
    })
  }

  #request<A>(send: () => Promise<A>): Effect.Effect<A, KafkaUnavailable> {
    return Effect.tryPromise({
      try: send,
      catch: (error) => {
        const { reason, detail } = reasonOf(error)
        return new KafkaUnavailable({ reason, detail })
      },
    }).pipe(
      Effect.timeoutOrElse({
        duration: REQUEST_TIMEOUT_MS,
        orElse: () => Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'no answer' })),
      }),
    )
  }

  // ---- member file and log

  #readMemberFile(): string | undefined {
    const { memberFile, group } = this.#options
    const saved = memberFile === undefined ? undefined : readMember(memberFile)
    return saved?.group === group ? saved.memberId : undefined
  }

  #writeMemberFile(memberId: string): void {
    const { memberFile, group } = this.#options
    if (memberFile === undefined) return
    try {
      writeMember(memberFile, { group, memberId })
    } catch {
      this.#log('consumer: the member file is not writable; a restart will wait for the session timeout', {
        memberFile,
      })
    }
  }

  #log(message: string, fields: Readonly<Record<string, unknown>>): void {
    this.#run.fork(
      Effect.logWarning(message).pipe(Effect.annotateLogs({ group: this.#options.group, ...fields })),
    )
  }
}
