/**
 * The projector: joins the group, claims the partitions that it is given, and shares their shards out to its workers.
 * A worker collects what arrives into polls and applies one poll after the other; what arrives while its transaction is
 * under way goes together into the next one.
 */
import {
  type Assignment,
  KafkaUnavailable,
  type ConsumerGroups,
  EventLog,
  type GroupControl,
  type GroupHandler,
  type TopicNames,
  topicNames,
  joinWithRetry,
} from '@hub/kafka'
import { ReadCheckpoints, type PayloadEncryption, Sql } from '@hub/store'
import { type ConsumerLag, makeLagGauge } from '@hub/telemetry'
import { Duration, Effect, Fiber, FiberHandle, Latch, type Scope } from 'effect'
import { runEventInbox } from '../events/event-inbox.ts'
import { makePersonalData } from '../messages/personal-data.ts'
import { deadLetters, failures } from '../metrics.ts'
import { makePublisher } from '../events/publisher.ts'
import { claimCheckpoints } from '../tables/all.ts'
import { makeApply } from './apply.ts'
import { type Claim, Intake, type Poll } from './record-buffer.ts'
import { backoff } from './recovery.ts'

/** Group name without the deployment's prefix. */
export const GROUP = 'hub.projector'

export interface ProjectorOptions {
  /** `HUB_TOPIC_PREFIX`: of topics and group. */
  readonly prefix: string
  /** The number of partitions of each topic. */
  readonly partitions: number
  /** Keeps the member id over restarts. */
  readonly memberFile?: string
  /** Most records of a transaction. */
  readonly pollSize?: number
}

/**
 * Most records of a transaction: large enough that its three round trips and its commit are nothing beside its rows,
 * small enough that it takes some tens of milliseconds, during which the journals it writes to are held.
 */
export const POLL_SIZE = 2000

/**
 * Transactions at a time: while PostgreSQL works for one, the process reads, opens and folds for the other. More would only
 * wait for each other at the ends of the same journals.
 */
const WORKERS = 2

/**
 * How long a small poll waits for company. A message is four records, and each comes on its own at everyday rates; applied
 * one by one they would cost a commit each. Readers see their message up to this much later, and what is not projected yet is read
 * from the ledger anyway.
 */
const LINGER = Duration.millis(50)
/** With so many records a commit is no longer what a poll costs. */
const LINGER_BELOW = 200

/** Records that may wait for a worker, in polls; then its partitions are not read on. One is applied while the next is read. */
const WAITING_POLLS = 1

/** How long a rebalance or the end of the process waits for the transaction under way: its own deadline in the second case. */
const REVOKE_WITHIN_MS = 2000
const END_WITHIN_MS = 5000

/** A claim lost to another member is taken again at the earliest after this, and only while the lease holds. */
const RECLAIM_AFTER_MS = 500

/** Lag is looked at and offsets are told to Kafka (for its tools; nothing here reads them) so often. */
const REPORT_EVERY_MS = 5000

export interface Projector {
  /** In the group, its consumer working, and every partition that it was given is claimed. */
  readonly isHealthy: Effect.Effect<boolean>
}

/** What one transaction at a time is made of. */
interface Worker {
  /** Records that wait for it. */
  readonly intake: Intake
  /** Open while there are any. */
  readonly work: Latch.Latch
  /** Open while more may come. */
  readonly room: Latch.Latch
  /** Open while no transaction is under way. */
  readonly idle: Latch.Latch
}
const makeWorker = (): Worker => ({
  intake: new Intake(),
  work: Latch.makeUnsafe(false),
  room: Latch.makeUnsafe(true),
  idle: Latch.makeUnsafe(true),
})

/** Topics of this projection, with the prefix → without. */
const sourcesOf = (topics: TopicNames): ReadonlyMap<string, string> => {
  const bare = topicNames()
  return new Map([
    [topics.acceptedOtp, bare.acceptedOtp],
    [topics.acceptedService, bare.acceptedService],
    [topics.messages, bare.messages],
  ])
}

/** Runs a projector until the scope closes; then it leaves the group and finishes the transaction under way. */
export const makeProjector = Effect.fnUntraced(function* (
  options: ProjectorOptions,
): Effect.fn.Return<
  Projector,
  KafkaUnavailable,
  Sql | EventLog | ConsumerGroups | PayloadEncryption | Scope.Scope
> {
  const sql = yield* Sql
  const topics = topicNames(options.prefix)
  const sources = sourcesOf(topics)
  const pollSize = options.pollSize ?? POLL_SIZE
  const publisher = yield* makePublisher
  yield* runEventInbox(topics, publisher)
  const personalData = yield* makePersonalData

  const workers = Array.from({ length: WORKERS }, makeWorker)
  let ending = false
  let current: { readonly assignment: Assignment; readonly control: GroupControl } | null = null
  /** Where a partition's records did not continue, by partition: the second time there is nothing in between. */
  const gaps = new Map<string, number>()

  /**
   * The worker of a shard. A shard's lanes and its log are with one worker, so that no message is in two transactions at
   * a time: what they fold is read without a lock.
   */
  const workerOf = (shard: number): Worker => {
    const index = current?.assignment.shards.indexOf(shard) ?? 0
    return workers[Math.max(0, index) % workers.length] as Worker
  }
  const claims = (): ReadonlyArray<Claim> => workers.flatMap(({ intake }) => intake.claims)

  /** Opens or closes a worker's gates by what waits for it. */
  const gate = ({ intake, room, work }: Worker) => {
    if (intake.waiting > 0) work.openUnsafe()
    else if (!ending) work.closeUnsafe()
    if (intake.waiting >= WAITING_POLLS * pollSize) room.closeUnsafe()
    else room.openUnsafe()
  }
  const drop = () => {
    for (const worker of workers) {
      worker.intake.clear()
      gate(worker)
    }
  }

  // Claiming

  const positions = Effect.fnUntraced(function* (assignment: Assignment, control: GroupControl) {
    const partitions = [...sources.values()].flatMap((topic) =>
      assignment.shards.map((partition) => ({ topic, partition })),
    )
    const checkpoints = yield* sql.run((q) => claimCheckpoints(q, ReadCheckpoints.PROJECTION, partitions))
    const claimed: Array<{ source: string; checkpoint: (typeof checkpoints)[number]; from: number }> = []
    for (const [source, topic] of sources) {
      const bounds = new Map((yield* control.offsetRanges(source)).map((bound) => [bound.partition, bound]))
      for (const checkpoint of checkpoints) {
        if (checkpoint.topic !== topic) continue
        const bound = bounds.get(checkpoint.partition)
        if (bound === undefined) {
          return yield* new KafkaUnavailable({ reason: 'rejected', detail: 'a partition is missing' })
        }
        const { high, low } = bound
        const { partition, position } = checkpoint
        // Too old: the records are gone. Too new: the topic is another one; applying it again changes nothing.
        const from = position < low || position > high ? low : position
        if (from !== position && position > 0) {
          yield* Effect.logError(
            'the checkpoint is outside what the topic holds; reading from its beginning',
          ).pipe(Effect.annotateLogs({ topic: source, partition, position, low, high }))
        }
        claimed.push({ source, checkpoint, from })
      }
    }
    return claimed
  })

  const claim = Effect.fnUntraced(function* (assignment: Assignment, control: GroupControl) {
    const claimed = yield* positions(assignment, control).pipe(
      Effect.tapError((error) =>
        Effect.logWarning('partitions could not be claimed; trying on').pipe(
          Effect.annotateLogs({ cause: error._tag }),
        ),
      ),
      Effect.retry(backoff),
      // The backoff never ends; a claim does when the next assignment interrupts it.
      Effect.orDie,
    )
    if (current?.control !== control || current.assignment !== assignment) return
    for (const { source, checkpoint, from } of claimed) {
      workerOf(checkpoint.partition).intake.open(source, checkpoint, from)
      control.seek({ topic: source, partition: checkpoint.partition, offset: from })
      control.resume(source, checkpoint.partition)
    }
    yield* Effect.logInfo('claimed').pipe(
      Effect.annotateLogs({ generation: assignment.generation, shards: assignment.shards.join(',') }),
    )
  })

  const claiming = yield* FiberHandle.make<void, never>()
  const startClaiming = yield* FiberHandle.runtime(claiming)<never>()
  const pauseAll = ({ assignment, control }: NonNullable<typeof current>) => {
    for (const source of sources.keys()) {
      for (const shard of assignment.shards) control.pause(source, shard)
    }
  }

  /** Everything again from the checkpoints, if these shards are still ours as far as anybody can know. */
  const reclaim = Effect.suspend(() => {
    const held = current
    drop()
    if (held === null) return Effect.void
    pauseAll(held)
    return FiberHandle.run(
      claiming,
      Effect.sleep(RECLAIM_AFTER_MS).pipe(
        Effect.repeat({ until: () => held.control.hasLease() }),
        Effect.andThen(claim(held.assignment, held.control)),
      ),
    ).pipe(Effect.asVoid)
  })

  // Applying

  const wanted = ({ intake }: Worker, poll: Poll) =>
    !ending && poll.every((chunk) => intake.holds(chunk.claim))

  const applyNext = Effect.fnUntraced(
    function* (worker: Worker) {
      const poll = worker.intake.take(pollSize)
      gate(worker)
      if (poll.length === 0) return
      worker.idle.closeUnsafe()
      const apply = yield* makeApply({
        group: `${options.prefix}${GROUP}`,
        topics,
        personalData,
        wanted: () => wanted(worker, poll),
        published: publisher.publish,
        leftBehind: publisher.leftBehind,
      })
      const applied = yield* apply(poll)
      if (applied === 'applied' || !wanted(worker, poll)) return
      yield* failures.add('superseded', 1)
      yield* Effect.logWarning('a claim was lost; nothing of the poll was applied')
      yield* reclaim
    },
    (effect, { idle }) =>
      effect.pipe(
        Effect.catchDefect((defect) =>
          // A fault of ours must be seen, and must not end the projection: the same records come again.
          Effect.andThen(
            Effect.logError('a poll failed', defect),
            Effect.andThen(failures.add('defect', 1), reclaim),
          ),
        ),
        Effect.ensuring(Effect.sync(() => idle.openUnsafe())),
      ),
  )

  const linger = (worker: Worker) =>
    Effect.suspend(() => (worker.intake.waiting >= LINGER_BELOW ? Effect.void : Effect.sleep(LINGER)))

  const loops = yield* Effect.forEach(workers, (worker) =>
    Effect.forkScoped(
      Effect.whileLoop({
        while: () => !ending,
        body: () => Effect.andThen(Effect.andThen(worker.work.await, linger(worker)), applyNext(worker)),
        step: () => {},
      }),
    ),
  )
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      ending = true
      for (const { work } of workers) work.openUnsafe()
      return Fiber.awaitAll(loops).pipe(Effect.timeoutOption(END_WITHIN_MS))
    }),
  )

  // The group

  const takeIn = Effect.fnUntraced(function* (
    source: string,
    partition: number,
    records: Parameters<GroupHandler['onBatch']>[2],
  ) {
    const worker = workerOf(partition)
    const { intake } = worker
    const taken = intake.add(source, partition, records)
    if (taken === 'gap') {
      const claim = intake.claims.find((held) => held.source === source && held.partition === partition)
      const key = `${source}/${partition}`
      const first = records[0]?.offset ?? 0
      if (claim !== undefined && gaps.get(key) === claim.next) {
        yield* Effect.logError('records are missing in the topic; going on behind them').pipe(
          Effect.annotateLogs({ topic: source, partition, from: claim.next, to: first }),
        )
        claim.next = first
        intake.add(source, partition, records)
      } else {
        if (claim !== undefined) gaps.set(key, claim.next)
        yield* reclaim
      }
    }
    gate(worker)
    yield* worker.room.await
  })

  const { isHealthy } = yield* joinWithRetry(
    {
      group: `${options.prefix}${GROUP}`,
      topics: [...sources.keys()],
      // Every partition of every topic may wait for its place in a poll.
      concurrency: sources.size * options.partitions,
      ...(options.memberFile === undefined ? {} : { memberFile: options.memberFile }),
    },
    {
      onAssigned: (assignment, control) => {
        drop()
        current = { assignment, control }
        pauseAll(current)
        if (!ending) startClaiming(claim(assignment, control))
      },
      onRevoking: Effect.gen(function* () {
        current = null
        drop()
        yield* FiberHandle.clear(claiming)
        yield* Effect.forEach(workers, ({ idle }) => idle.await).pipe(Effect.timeoutOption(REVOKE_WITHIN_MS))
      }),
      onBatch: takeIn,
    },
  )

  // Watching

  // A counter that begins with its first event shows no increase for it.
  for (const cause of ['storage', 'bus', 'superseded', 'defect']) yield* failures.add(cause, 0)
  for (const topic of sources.keys()) yield* deadLetters.add(topic, 0)
  const tellLag = makeLagGauge(yield* Effect.context<never>())
  const report = Effect.gen(function* () {
    const held = current
    if (held === null) return
    const claimed = claims()
    yield* held.control.commit(
      claimed.map(({ source, partition, position }) => ({ topic: source, partition, offset: position })),
    )
    const lag: Array<ConsumerLag> = []
    for (const [source, topic] of sources) {
      const bounds = new Map(
        (yield* held.control.offsetRanges(source)).map((bound) => [bound.partition, bound.high]),
      )
      for (const { partition, position } of claimed.filter((claim) => claim.source === source)) {
        lag.push({ topic, partition, records: Math.max(0, (bounds.get(partition) ?? position) - position) })
      }
    }
    tellLag(lag)
  }).pipe(Effect.catch(() => failures.add('bus', 1)))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(REPORT_EVERY_MS), report)))

  return {
    isHealthy: Effect.map(
      isHealthy,
      (healthy) =>
        healthy && current !== null && claims().length === sources.size * current.assignment.shards.length,
    ),
  }
})
