/**
 * The messages of one shard: a state machine without I/O. Records, answers and time come in; facts to append and
 * messages to submit go out through `World`, synchronously. What a message's facts mean is the domain's
 * (`decide`, `evolve`); here is decided when to ask it, and which offsets are still needed.
 *
 * Marks. A lane offset is held while the payload behind it may still be needed; from the acknowledged `MessageSent`
 * (or a final fact) on the message can be recovered from the log. A log offset is held (a) for every message
 * that was claimed and is not final: the fact from which recovery can go on, which is its newest claim,
 * `HandoverRefused`, or that it was carried forward; (b) for every finished message: its final fact, for `REMEMBERED_MS`. A report's offset is
 * held until what it says is in the log, or it is known to say nothing new.
 *
 * A lane's mark may lie hours behind, at a message that its operator does not take: what a restart reads again from there, and does not
 * remember any more, is old, and everything old is looked up in the read model before it is handed over (decision 14).
 */
import {
  type Fence,
  PinnedOffsets,
  KeyedQueues,
  LaneCursor,
  type LowestPinned,
  type OpenedShard,
  TimerHeap,
} from '@hub/actor'
import {
  reappendOpen,
  reappendRefusal,
  decide,
  epochOf,
  evolve,
  type LogFact,
  type MessageAccepted,
  type MessageCommand,
  type MessageState,
  type Mode,
  type OpenMessageCarried,
  withEpoch,
} from '@hub/domain'
import type { OpenSubmission, SubmitOutcome } from '@hub/operator'
import { Result } from 'effect'
import {
  type KnownMessage,
  knownState,
  makeMessage,
  type Message,
  NONE,
  operatorKey,
  type Report,
} from './message.ts'
import { type ParkedReport, ParkedReports } from './parked-reports.ts'

/** Something worth counting; names are bounded. */
export type Happening =
  | 'duplicate_dropped'
  | 'known_dropped'
  | 'void_claim'
  | 'outcome_unknown'
  | 'assumed_sent'
  | 'report_duplicate'
  | 'report_unmatched'
  | 'report_impossible'
  | 'report_matched_by_recipient'
  | 'record_lost'
  | 'carried'

/** What the shard asks of the outside. All of it is synchronous and bounded elsewhere. */
export interface World {
  readonly now: () => number
  /** Appends a fact about a message; `onAppended` gets its offset, unless the shard was closed before. */
  readonly append: (fact: LogFact, message: Message, onAppended: (offset: number) => void) => void
  /** Appends what is known of open messages, one record for all of them; `onAppended` as for `append`. */
  readonly carry: (open: ReadonlyArray<Carried>, at: number, onAppended: (offset: number) => void) => void
  /** The claim is acknowledged: hand the message over. Answered by `answered`. */
  readonly submit: (message: Message) => void
  /** Messages that were open when the shard was recovered. */
  readonly resume: (operator: string, open: ReadonlyArray<OpenSubmission>) => void
  readonly operatorFor: (mode: Mode) => string
  /** Every operator that `operatorFor` may name; absent: those of the two modes now. */
  readonly routes?: ReadonlyArray<string>
  /** Shared by the shards of a process. */
  readonly population?: Population
  readonly dedupes: (operator: string) => boolean
  /** Until when a report is awaited of a message whose answer was lost, or whose number is not known any more. */
  readonly reportDeadline: (state: MessageState, sentAt: number) => number
  readonly happened: (what: Happening, count?: number) => void
}

/** An open message that is carried forward. */
export interface Carried {
  readonly message: Message
  readonly fact: OpenMessageCarried
}

/** Messages in the memory of a process, over all of its shards. */
export interface Population {
  count: number
  /** From here on no lane is read. */
  readonly limit: number
}

export interface ShardLimits {
  /** Messages of a lane whose payload is held, for each operator. */
  readonly buffer: number
  /** Messages that are not final. */
  readonly open: number
  /** Finished messages still remembered. */
  readonly finished: number
  /**
   * Open messages are carried forward once a restart would read more records than these and one and a half for each that is needed. Absent: 5000, which
   * a busy shard writes in ten seconds: no more than what it has to remember anyway.
   */
  readonly carryBehind?: number
}

/**
 * 2,000 payloads of about 1 kB are a second or two of work for a brisk operator. 120,000 open messages take about 110 MB and let
 * `service` have 108,000; what a process holds over all of its shards has a bound of its own. 100,000 finished ones in 13 seconds
 * are 7,700 a second for one shard, which is more than it can do, and take about 25 MB: they are kept as ids.
 */
export const DEFAULT_LIMITS: ShardLimits = { buffer: 2000, open: 120_000, finished: 100_000 }

/**
 * So long a finished message is remembered, and its evidence held in the log: what a restart of a busy shard reads is mostly this.
 * A repeat that comes later is old, and looked up.
 */
export const REMEMBERED_MS = 13_000
/** So long a finished message is kept whole: reports that come twice, and receipts of reading soon after, need not be looked up. */
const IN_FULL_MS = 10_000
/**
 * So far the clocks of PostgreSQL, command-api and the dispatcher may be apart. command-api is not ready from a second on, and `hubctl doctor`
 * warns.
 */
const CLOCKS_APART_MS = 3000
/**
 * A record that reached its lane, or is read, later than this after its acceptance may repeat a message that was finished and is forgotten by
 * now: it came late, or lay in a backlog.
 */
const OLD_AFTER_MS = REMEMBERED_MS - CLOCKS_APART_MS
/** A message whose newest fact is older than this may be carried forward; nearly all have come to their end by then. */
const CARRIED_AFTER_MS = 20_000
/** See `ShardLimits.carryBehind`. */
export const CARRY_BEHIND = 5000
/**
 * And so many for each that is needed: 150,000 with 100,000 open messages, which a restart reads beside what was carried in less than
 * three seconds.
 */
export const CARRY_RATIO = 1.5
/** Carried a second at most: 100 kB of log, and one produce that a code would have to wait for. */
const CARRIED_AT_ONCE = 500
/** In one record: 20 kB, and some 80 if each has ten parts. */
export const CARRIED_IN_ONE = 100
/** Looked through for messages to carry, from the oldest on. */
const CARRY_SCAN = 2000
/** A report of which the read model knows nothing after this long may be about a message of its recipient whose answer was lost. */
const MATCH_BY_RECIPIENT_MS = 5000
/** And after this long it is nobody's. */
const PARK_MS = 30_000
/** First pause after an answer was lost, doubled up to the longest. */
const LOST_PAUSE_MS = 1000
const LONGEST_LOST_PAUSE_MS = 30_000
/** Longest lifetime before hand-over there has ever been: what finished earlier cannot come again unnoticed. */
const LONGEST_LIFETIME_MS = 24 * 3_600_000

const LANES = 2
/** What `service` may have of all that is limited. */
const SERVICE_PART = 0.9
/**
 * Payloads of one lane and operator, bytes. Two thousand short messages take half of it; it is for those of ten parts with many
 * variables.
 */
const BUFFER_BYTES = 2 * 1024 * 1024
/** What a message in memory takes, and one of which only the id is left; measured with 100,000. */
const MESSAGE_BYTES = 910
const REMEMBERED_BYTES = 260
/** About what a message that is queued takes beside its sealed payload. */
const ENVELOPE_BYTES = 512

interface Lane {
  readonly holds: PinnedOffsets
  readonly reading: LaneCursor
  /** Of payloads held, by operator. */
  readonly bytes: Map<string, number>
}

interface Remembered {
  /** Of its final fact in the log. */
  readonly evidence: number
  readonly finishedAt: number
}

/** Not while something is under way, nor while it is young. */
const isCarriable = ({ busy, evidenceAt, recording, state }: Message, now: number): boolean =>
  !busy &&
  recording === 0 &&
  now - evidenceAt >= CARRIED_AFTER_MS &&
  (state.stage === 'awaitingReport' || state.stage === 'queued')

export class MessageShard {
  readonly #world: World
  readonly #limits: ShardLimits
  #epoch = 0
  #open = false
  #laneEnds: ReadonlyArray<number> = []
  #orphans = false
  readonly #messages = new Map<string, Message>()
  readonly #lanes: ReadonlyArray<Lane>
  readonly #routes: ReadonlyArray<string>
  /** In the order in which they finished. */
  readonly #finished = new Set<Message>()
  /** Finished messages of which only a repeat must be known, in the order in which they came here. */
  readonly #remembered = new Map<string, Remembered>()
  readonly #queues = new KeyedQueues<Message>(LANES)
  readonly #timers = new TimerHeap<Message>()
  readonly #logHolds = new PinnedOffsets<Message | Remembered>()
  readonly #reportHolds = new PinnedOffsets()
  /** Some of their parts have been reported on; those reports are held. */
  readonly #partlyReported = new Set<Message>()
  readonly #byOperatorId = new Map<string, Message>()
  /** Sent without ids, by recipient. */
  readonly #answerLost = new Map<string, Set<Message>>()
  readonly #lookingUp = new Set<Message>()
  readonly #parked = new ParkedReports()
  /** Own facts not read back yet: they are folded when they are acknowledged. */
  readonly #ownOffsets = new Set<number>()
  #logPosition = 0
  readonly #handovers = new Map<string, number>()

  constructor(world: World, limits: ShardLimits = DEFAULT_LIMITS) {
    this.#world = world
    this.#limits = limits
    this.#routes = world.routes ?? [...new Set([world.operatorFor('live'), world.operatorFor('test')])]
    this.#lanes = Array.from({ length: LANES }, (_, lane) => ({
      holds: new PinnedOffsets(),
      bytes: new Map<string, number>(),
      reading: new LaneCursor({
        isFull: (route) => this.#isShareFull(lane, route),
        hasRoom: (route) => this.#hasShareRoom(lane, route),
      }),
    }))
  }

  // ---- what others may know

  /** Messages that are not final. */
  get openCount(): number {
    return this.#messages.size - this.#finished.size
  }
  /** Hand-overs under way: claimed, or about to be, and the result not yet in the log. */
  get handovers(): number {
    let count = 0
    for (const under of this.#handovers.values()) count += under
    return count
  }
  /** Those of one operator. */
  handoversAt(operator: string): number {
    return this.#handovers.get(operator) ?? 0
  }
  get parkedCount(): number {
    return this.#parked.size
  }
  get finishedCount(): number {
    return this.#finished.size + this.#remembered.size
  }
  /** Messages of a lane whose payload is held. */
  buffered(lane: number): number {
    return this.#queues.count(lane)
  }
  /** The recipient of a message in memory, or `null`. */
  recipientOf(messageId: string): string | null {
    return this.#messages.get(messageId)?.key ?? null
  }

  /** About what a payload that is held takes, bytes, over both lanes. */
  get payloadBytes(): number {
    let sum = 0
    for (const { bytes } of this.#lanes) for (const some of bytes.values()) sum += some
    return sum
  }
  /** About what the shard takes of the process's memory, bytes; bounded by its limits. */
  get memoryBytes(): number {
    return this.#messages.size * MESSAGE_BYTES + this.#remembered.size * REMEMBERED_BYTES + this.payloadBytes
  }

  /** The lane must not be read on. */
  isFull(lane: number): boolean {
    return (
      this.#isCrowded(lane, 1) ||
      this.#routes.every((route) => this.#isShareFull(lane, route)) ||
      this.#lanes[lane]!.reading.isWaiting(this.#world.now())
    )
  }

  /** With some distance to `isFull`, so that a partition is not paused and resumed for each record. */
  hasRoom(lane: number): boolean {
    return (
      !this.#isCrowded(lane, 0.9) &&
      this.#routes.some((route) => this.#hasShareRoom(lane, route)) &&
      !this.#lanes[lane]!.reading.isWaiting(this.#world.now())
    )
  }

  /** Where a lane is to be read next, when it is not `position`; see `LaneCursor`. */
  turn(lane: number, position: number): number | null {
    return this.#lanes[lane]!.reading.seekTarget(position, this.#world.now())
  }

  /** `service` leaves a tenth of everything to `otp`: a campaign without reports must not stop the codes. */
  #isCrowded(lane: number, share: number): boolean {
    const part = lane === 0 ? share : share * SERVICE_PART
    const { population } = this.#world
    return (
      this.openCount >= this.#limits.open * part ||
      this.finishedCount >= this.#limits.finished * part ||
      (population !== undefined && population.count >= population.limit * part)
    )
  }

  #isShareFull(lane: number, route: string): boolean {
    return (
      this.#queues.count(lane, route) >= this.#limits.buffer ||
      (this.#lanes[lane]!.bytes.get(route) ?? 0) >= BUFFER_BYTES
    )
  }

  #hasShareRoom(lane: number, route: string): boolean {
    return (
      this.#queues.count(lane, route) <= this.#limits.buffer / 2 &&
      (this.#lanes[lane]!.bytes.get(route) ?? 0) <= BUFFER_BYTES / 2
    )
  }

  needed(): LowestPinned {
    return {
      lanes: this.#lanes.map(({ holds, reading }) => {
        const held = holds.lowest()
        const passedOver = reading.lowestSkipped()
        return held === null ? passedOver : passedOver === null ? held : Math.min(held, passedOver)
      }),
      log: this.#logHolds.lowest(),
      reports: this.#reportHolds.lowest(),
    }
  }

  /** The shard is somebody else's: what it holds is not in this process's memory for long. */
  closed(): void {
    if (this.#world.population !== undefined) this.#world.population.count -= this.#messages.size
    this.#messages.clear()
  }

  // ---- records

  /** Whether the record at this offset of the log is one of our own, folded already. Ask once for each, in order. */
  isOwn(offset: number): boolean {
    this.#logPosition = offset + 1
    return this.#ownOffsets.delete(offset)
  }

  /** A fact of the log. Before `opened` it builds the state; afterwards it is what another member has still written. */
  onFact(offset: number, recipient: string, fact: LogFact, fence: Fence): void {
    const epoch = epochOf(fact)
    if (epoch !== null && fence.isVoid(epoch)) {
      this.#world.happened('void_claim')
      return
    }
    const known = this.#messages.get(fact.messageId)
    if (known !== undefined) {
      this.#fold(known, fact, offset)
      if (this.#open) this.#settle(known)
      else this.#abridgeWhenRead(known)
      return
    }
    // Whatever concerns this shard was recovered; a stranger's late word on something long finished is nothing new.
    if (this.#open || this.#remembered.has(fact.messageId)) return
    const message = makeMessage(fact.messageId, recipient, evolve(null, fact))
    this.#keep(message)
    if (message.state.final && fact.at < this.#world.now() - LONGEST_LIFETIME_MS) {
      this.#unkeep(message)
      return
    }
    this.#fold(message, fact, offset)
    if (message.state.final) this.#finish(message)
    this.#abridgeWhenRead(message)
  }

  /** What finished a while ago is not kept whole for the moment until the shard is open: there may be as many as are open. */
  #abridgeWhenRead(message: Message): void {
    const { finishedAt, state } = message
    if (!state.final || state.reason === 'dlr_timeout_local') return
    if (this.#world.now() - finishedAt >= IN_FULL_MS) this.#abridge(message)
  }

  /** Recovery is over: the fence is ours. */
  opened({ epoch, laneEnds, logPosition, now }: OpenedShard): void {
    this.#epoch = epoch
    // Fences are no facts, and at rest there is nothing else behind the mark.
    this.#logPosition = logPosition
    this.#open = true
    this.#laneEnds = laneEnds
    const resumed = new Map<string, Array<OpenSubmission>>()
    for (const message of this.#messages.values()) {
      const { state } = message
      const late = state.final && state.reason === 'dlr_timeout_local'
      if (state.operator !== null && state.sentAt !== null && (late || state.stage === 'awaitingReport')) {
        const list = resumed.get(state.operator) ?? []
        list.push({
          reference: message.id,
          recipient: message.key,
          operatorIds: message.awaited === null ? state.operatorIds : [...message.awaited],
          sentAt: state.sentAt,
        })
        resumed.set(state.operator, list)
      }
      // A restart does not make a message younger: what finished before it is remembered from then on.
      if (state.final) message.finishedAt = Math.min(message.finishedAt, now)
      else this.#arm(message)
      if (state.stage === 'handingOver') {
        // A report may already be about it; then none of the same recipient is surely about another.
        this.#addAnswerLost(message)
        this.#world.happened('outcome_unknown')
      }
      if (!state.final && state.stage !== 'awaitingReport') this.#orphans = true
    }
    for (const [operator, open] of resumed) this.#world.resume(operator, open)
  }

  /** A record of a lane. `appendedAt` is when it reached the lane. */
  onAccepted(lane: number, offset: number, appendedAt: number, accepted: MessageAccepted): void {
    const now = this.#world.now()
    const known = this.#messages.get(accepted.messageId)
    const route = known?.state.operator ?? this.#world.operatorFor(accepted.mode)
    const admitted = this.#lanes[lane]!.reading.accepts(offset, route)
    if (known === undefined && this.#remembered.has(accepted.messageId)) {
      this.#world.happened('duplicate_dropped')
      return
    }
    if (known !== undefined) {
      // What the log knows is taken whatever its share: it may be a claim without an answer, and there are few.
      if (known.state.accepted) {
        if (known.laneOffset !== offset) this.#world.happened('duplicate_dropped')
        return
      }
      known.state = evolve(known.state, accepted)
      known.lane = lane
      known.laneOffset = offset
      known.route = route
      const { stage } = known.state
      if (stage !== 'queued' && stage !== 'handingOver') return
      known.accepted = accepted
      known.blockedUntil = known.state.retryAt
      if (stage === 'queued') this.#askWhetherOld(known, appendedAt, accepted, now)
      this.#enqueue(known, known.lookingUp || known.blockedUntil > now || known.recording > 0)
      return
    }
    if (!admitted) return
    const message = makeMessage(accepted.messageId, accepted.recipient, evolve(null, accepted))
    message.lane = lane
    message.laneOffset = offset
    message.route = route
    message.accepted = accepted
    this.#keep(message)
    this.#askWhetherOld(message, appendedAt, accepted, now)
    this.#enqueue(message, message.lookingUp)
  }

  /** What may have been handed over, finished and forgotten is looked up before it is handed over. */
  #askWhetherOld(message: Message, appendedAt: number, accepted: MessageAccepted, now: number): void {
    if (
      !accepted.republished &&
      appendedAt - accepted.at <= OLD_AFTER_MS &&
      now - accepted.at <= OLD_AFTER_MS
    ) {
      return
    }
    message.lookingUp = true
    message.askAt = { lane: message.laneOffset, log: this.#logPosition }
    this.#lookingUp.add(message)
  }

  /** A record of a lane that cannot be read holds its place until it is in the dead letters. */
  holdLane(lane: number, offset: number): void {
    this.#lanes[lane]!.reading.pass(offset)
    this.#lanes[lane]!.holds.pin(offset)
  }
  releaseLane(lane: number, offset: number): void {
    this.#lanes[lane]!.holds.unpin(offset)
  }
  /** Whether a record of a lane is read for the first time since the shard was opened. */
  isNew(lane: number, offset: number): boolean {
    return this.#lanes[lane]!.reading.isNew(offset)
  }
  holdReport(offset: number): void {
    this.#reportHolds.pin(offset)
  }
  releaseReport(offset: number): void {
    this.#reportHolds.unpin(offset)
  }

  onReport(report: Report): void {
    this.#reportHolds.pin(report.offset)
    this.#report(report)
  }

  // ---- handing over

  /** The next message of a lane for an operator, or `null`. It is followed by `claim`, `postpone`, or `discard`. */
  take(lane: number, operator: string): Message | null {
    const message = this.#queues.take(lane, operator)
    if (message === null) return null
    message.busy = true
    this.#handovers.set(message.route, this.handoversAt(message.route) + 1)
    return message
  }

  /** Its payload is at hand: the claim goes to the log, and then the message to the operator. */
  claim(message: Message): void {
    const now = this.#world.now()
    message.doubtful = message.state.stage === 'handingOver'
    const decision = decide(message.state, {
      type: 'HandOver',
      epoch: this.#epoch,
      operator: message.route,
      dedupes: this.#world.dedupes(message.route),
      at: now,
    })
    if (Result.isSuccess(decision)) {
      this.#record(message, decision.success, () => {
        // A report that another member's claim brought about may have come first.
        if (message.state.stage !== 'handingOver') this.#release(message, 0)
        // The log may have taken its time.
        else if (this.#world.now() >= message.state.expiresAt)
          this.answered(message, { type: 'notWritten' }, 0)
        else this.#world.submit(message)
      })
      return
    }
    switch (decision.failure._tag) {
      case 'RetryNotDue':
        return this.#release(message, decision.failure.retryAt)
      case 'LifetimeExpired':
      case 'OutcomeUnknown':
        return this.discard(message)
      case 'AlreadyHandedOver':
      case 'AcceptanceUnknown':
      case 'MessageUnknown':
      case 'NotHandedOver':
        return this.#release(message, 0)
    }
  }

  /** The payload could not be opened for now. */
  postpone(message: Message, ms: number): void {
    this.#release(message, this.#world.now() + ms)
  }

  /** It can never be handed over (again): its lifetime or its payload's key is gone. */
  discard(message: Message): void {
    const now = this.#world.now()
    const { expiresAt, stage } = message.state
    this.#decideAndRecord(
      message,
      stage === 'handingOver'
        ? { type: 'AssumeSent', at: now, reportDeadline: this.#world.reportDeadline(message.state, now) }
        : { type: 'PassDeadline', at: Math.max(now, expiresAt) },
      () => this.#release(message, 0),
    )
    if (stage === 'handingOver') this.#world.happened('assumed_sent')
  }

  /** The operator's answer to `submit`. `reportDeadline` counts when it is `accepted`. */
  answered(message: Message, outcome: SubmitOutcome, reportDeadline: number): void {
    const at = this.#world.now()
    switch (outcome.type) {
      case 'accepted':
        // Reports may be faster than the log: they find the message from now on, and wait.
        this.#index(message, message.route, outcome.operatorIds)
        this.#decideAndRecord(
          message,
          {
            type: 'RecordSubmitted',
            operator: message.route,
            operatorIds: outcome.operatorIds,
            reportDeadline,
            at,
          },
          () => this.#release(message, 0),
        )
        return
      case 'rejected':
        this.#decideAndRecord(message, { type: 'RecordRejection', reason: outcome.reason, at }, () =>
          this.#release(message, 0),
        )
        return
      case 'refused':
      case 'notWritten': {
        const retryAt = outcome.type === 'refused' ? at + outcome.retryAfterMs : at
        // An earlier claim may have succeeded: a refusal now does not disprove that, so it is not written down.
        if (message.doubtful) return this.#release(message, Math.max(retryAt, at + LOST_PAUSE_MS))
        this.#decideAndRecord(message, { type: 'RecordRefusal', retryAt, at }, () =>
          this.#release(message, retryAt),
        )
        return
      }
      case 'unknown': {
        this.#world.happened('outcome_unknown')
        if (!this.#world.dedupes(message.route)) return this.discard(message)
        const pause = Math.min(LOST_PAUSE_MS * 2 ** message.lost, LONGEST_LOST_PAUSE_MS)
        message.lost++
        return this.#release(message, at + pause)
      }
    }
  }

  // ---- time

  /** Does what is due. */
  tick(now: number): void {
    for (;;) {
      const message = this.#timers.takeDue(now)
      if (message === undefined) return
      if (message.busy || message.recording > 0 || message.state.final || message.lookingUp) continue
      switch (message.state.stage) {
        case 'queued':
          if (message.state.expiresAt <= now) {
            this.#decideAndRecord(message, { type: 'PassDeadline', at: now })
            break
          }
          this.#unblock(message)
          break
        case 'handingOver':
          this.#unblock(message)
          break
        case 'awaitingReport':
          this.#decideAndRecord(message, { type: 'PassDeadline', at: now })
          break
        case 'final':
      }
    }
  }

  /** Marks were committed: what need not be remembered any more is forgotten, and what waits long is carried forward. */
  committed(lanes: ReadonlyArray<number>, logPosition: number, now: number): void {
    for (const [id, remembered] of this.#remembered) {
      if (now - remembered.finishedAt < REMEMBERED_MS) break
      this.#remembered.delete(id)
      this.#logHolds.unpin(remembered.evidence, remembered)
    }
    for (const message of this.#finished) {
      if (now - message.finishedAt < IN_FULL_MS) break
      // Its facts that have not been read back yet would look like news, and so would an answer that is still to come.
      if (logPosition <= message.evidence || message.recording > 0 || message.busy) continue
      if (now - message.finishedAt >= REMEMBERED_MS) this.#forget(message)
      else if (message.state.reason !== 'dlr_timeout_local') this.#abridge(message)
    }
    const allRead = lanes.every(
      (mark, lane) => Math.max(mark, this.#lanes[lane]!.reading.frontier) >= (this.#laneEnds[lane] ?? 0),
    )
    if (this.#orphans && allRead) this.#giveUpOrphans(now)
    this.#carry(logPosition, now)
  }

  // ---- lookups

  /** Messages that the read model is to be asked about, with how far the projector must have come. */
  messagesToLookUp(limit: number): ReadonlyArray<Message> {
    const found: Array<Message> = []
    for (const message of this.#lookingUp) {
      if (found.length === limit) break
      found.push(message)
    }
    return found
  }

  /** The answer: the message was handed over or finished before, or not. */
  lookedUp(message: Message, handedOver: boolean): void {
    if (!this.#lookingUp.delete(message)) return
    message.lookingUp = false
    message.askAt = null
    // The log may have told meanwhile; what it tells of an open message is all there is to know.
    if (handedOver && message.state.stage === 'queued') {
      this.#world.happened('known_dropped')
      const reports = message.waitingReports
      message.waitingReports = NONE
      this.#leaveQueue(message)
      this.#forget(message)
      // They are about what the read model knows.
      for (const report of reports) this.#report(report)
      return
    }
    this.#settle(message)
  }

  /** So many reports wait to be looked up that no further ones must be read. */
  get reportsFull(): boolean {
    return this.#parked.isFull
  }
  get reportsHaveRoom(): boolean {
    return this.#parked.hasRoom
  }

  /** Reports that match nothing here and are due to be looked up, with how far the projector must have come. */
  reportsToLookUp(limit: number): ReadonlyArray<ParkedReport> {
    return this.#parked.due(this.#world.now(), limit)
  }

  /**
   * The answer to `reportsToLookUp`, for one of them: whose it is, or `null` for nobody's. A read model that has not come as far as
   * was asked for gives no answer.
   */
  reportLookedUp({ report }: Pick<ParkedReport, 'report'>, known: KnownMessage | null): void {
    const parked = this.#parked.get(report.offset)
    if (parked === undefined) return
    const now = this.#world.now()
    parked.unknown = known === null
    if (known !== null) {
      const correctable =
        known.reason === 'dlr_timeout_local' ||
        (known.status === 'delivered' && report.outcome.status === 'seen' && !known.seen)
      if (correctable) {
        this.#parked.remove(parked)
        const here = this.#messages.get(known.id)
        if (here === undefined) this.#rehydrate(known, now)
        else {
          const { operator, operatorIds } = known
          // Of a finished message the log may have told nothing but its end.
          if (here.state.operatorIds.length === 0) here.state = { ...here.state, operator, operatorIds }
          this.#index(here, operator, operatorIds)
        }
        this.#report(report)
        // Those of its other parts waited under their own ids.
        if (here !== undefined) this.#settle(here)
        return
      }
      if (known.status !== 'accepted' && known.status !== 'sent') {
        this.#parked.remove(parked)
        this.#drop(report, 'report_duplicate')
        return
      }
    } else if (now - parked.since >= MATCH_BY_RECIPIENT_MS && !this.#queues.isTaken(report.recipient)) {
      const candidates = [...(this.#answerLost.get(report.recipient) ?? [])].filter(
        ({ state }) => state.operator === report.operator,
      )
      const [only] = candidates
      // Two of one recipient cannot be told apart: both wait for their deadline.
      if (only !== undefined && candidates.length === 1 && !only.busy && only.recording === 0) {
        this.#parked.remove(parked)
        this.#world.happened('report_matched_by_recipient')
        this.#apply(only, report)
        return
      }
    }
    // An answer that is still under way, however late, may have its id.
    if (now - parked.since >= PARK_MS && !this.#queues.isTaken(report.recipient)) {
      this.#parked.remove(parked)
      this.#drop(report, 'report_unmatched')
    }
  }

  // ---- inside

  #enqueue(message: Message, blocked: boolean): void {
    this.#lanes[message.lane]!.holds.pin(message.laneOffset)
    this.#weigh(message, 1)
    this.#queues.push(message, blocked)
    this.#arm(message)
  }

  /**
   * The payload is not needed any more. While a hand-over is under way the message keeps its place whatever is read from
   * the log meanwhile: its recipient's next one waits for the operator's answer.
   */
  #leaveQueue(message: Message): void {
    if (message.accepted === null || message.busy) return
    this.#weigh(message, -1)
    message.accepted = null
    this.#queues.remove(message)
    this.#lanes[message.lane]!.holds.unpin(message.laneOffset)
  }

  #weigh({ accepted, lane, route }: Message, sign: 1 | -1): void {
    const { bytes } = this.#lanes[lane]!
    const weight = ENVELOPE_BYTES + (accepted?.sealed.length ?? 0)
    bytes.set(route, (bytes.get(route) ?? 0) + sign * weight)
  }

  /** Takes a fact that is in the log at `offset` for true. Twice is once. */
  #fold(message: Message, fact: LogFact, offset: number): void {
    const before = message.state
    const after = evolve(before, fact)
    message.state = after
    this.#remember(message, fact, offset)
    if (fact.type === 'MessageSent') this.#index(message, fact.operator, fact.operatorIds)
    if (fact.type === 'OpenMessageCarried') {
      this.#index(message, fact.operator, fact.operatorIds)
      // Of several parts, those reported on were left out of what was carried.
      if (message.evidence === offset && message.state.operatorIds.length > 1) {
        message.awaited = new Set(fact.operatorIds)
      }
    }
    if (after.final) {
      if (!before.final || after.status !== before.status) this.#finish(message)
    } else if (after.stage === 'awaitingReport') {
      this.#leaveQueue(message)
      if (after.operatorIds.length === 0) this.#addAnswerLost(message)
      else this.#removeAnswerLost(message)
    } else if (after.stage === 'queued') this.#removeAnswerLost(message)
  }

  /**
   * Moves the offset from which recovery can go on, forward only. A produce that was given up may land late, behind
   * what came of its repetition: such an old claim or carried fact proves less than what is there already.
   */
  #remember(message: Message, fact: LogFact, offset: number): void {
    // An answer that is read only after a later claim of ours was acknowledged: recovery must begin at the answer.
    const answersClaim =
      offset < message.evidence &&
      fact.type === 'MessageSent' &&
      message.state.stage === 'awaitingReport' &&
      message.state.sentAt === fact.at
    if (offset <= message.evidence && !answersClaim) return
    const moves = (): boolean => {
      switch (fact.type) {
        case 'HandoverStarted':
          return message.state.stage === 'handingOver'
        case 'HandoverRefused':
          return message.state.stage === 'queued' && fact.attempt === message.state.attempts
        case 'OpenMessageCarried':
          return message.state.stage === 'awaitingReport' && fact.at >= message.evidenceAt
        case 'MessageDelivered':
        case 'MessageUndelivered':
        case 'MessageRejected':
        case 'MessageExpired':
          return true
        case 'MessageSent':
        case 'MessageSeen':
          return false
      }
    }
    if (message.evidence >= 0 && !answersClaim && !moves()) return
    this.#dropEvidence(message)
    message.evidence = offset
    message.evidenceAt = fact.at
    this.#logHolds.pin(offset, message)
  }

  #dropEvidence(message: Message): void {
    if (message.evidence < 0) return
    this.#logHolds.unpin(message.evidence, message)
    message.evidence = -1
  }

  #finish(message: Message): void {
    this.#leaveQueue(message)
    this.#timers.clear(message)
    this.#removeAnswerLost(message)
    if (this.#lookingUp.delete(message)) message.lookingUp = false
    this.#releaseReports(message)
    message.finishedAt = this.#open ? this.#world.now() : message.evidenceAt
    this.#finished.delete(message)
    this.#finished.add(message)
  }

  #keep(message: Message): void {
    this.#messages.set(message.id, message)
    if (this.#world.population !== undefined) this.#world.population.count++
  }

  #unkeep(message: Message): void {
    if (this.#messages.delete(message.id) && this.#world.population !== undefined) {
      this.#world.population.count--
    }
  }

  #forget(message: Message): void {
    this.#unkeep(message)
    this.#finished.delete(message)
    this.#timers.clear(message)
    this.#removeAnswerLost(message)
    this.#dropEvidence(message)
    this.#releaseReports(message)
    for (const report of message.waitingReports) this.#drop(report, 'report_duplicate')
    const { operator, operatorIds } = message.state
    if (operator !== null) {
      for (const id of operatorIds) {
        const key = operatorKey(operator, id, message.key)
        if (this.#byOperatorId.get(key) === message) this.#byOperatorId.delete(key)
      }
    }
  }

  /**
   * From now on only its id is known, so that a repeat is dropped. What still comes about it (a receipt of reading, a report
   * twice) is asked of the read model, as for all that is forgotten.
   */
  #abridge(message: Message): void {
    const { evidence, finishedAt, id } = message
    const earlier = this.#remembered.get(id)
    if (earlier !== undefined) this.#logHolds.unpin(earlier.evidence, earlier)
    this.#remembered.delete(id)
    this.#forget(message)
    const remembered = { evidence, finishedAt }
    if (evidence >= 0) this.#logHolds.pin(evidence, remembered)
    this.#remembered.set(id, remembered)
  }

  #releaseReports(message: Message): void {
    for (const offset of message.heldReports) this.#reportHolds.unpin(offset)
    message.heldReports = NONE
    this.#partlyReported.delete(message)
  }

  #index(message: Message, operator: string, operatorIds: ReadonlyArray<string>): void {
    if (operatorIds.length === 0) return
    if (operatorIds.length > 1) message.awaited ??= new Set(operatorIds)
    for (const id of operatorIds) {
      const key = operatorKey(operator, id, message.key)
      this.#byOperatorId.set(key, message)
      const waiting = this.#parked.take(key)
      if (waiting.length > 0) message.waitingReports = [...message.waitingReports, ...waiting]
    }
  }

  #addAnswerLost(message: Message): void {
    const set = this.#answerLost.get(message.key) ?? new Set()
    set.add(message)
    this.#answerLost.set(message.key, set)
  }

  #removeAnswerLost(message: Message): void {
    const set = this.#answerLost.get(message.key)
    if (set === undefined) return
    set.delete(message)
    if (set.size === 0) this.#answerLost.delete(message.key)
  }

  /** Appends facts in order; each is folded when it is acknowledged, and `then` runs after the last. */
  #record(message: Message, facts: ReadonlyArray<LogFact>, then?: () => void): void {
    if (facts.length === 0) {
      then?.()
      this.#settle(message)
      return
    }
    // Whatever is being written down decides what may be done next.
    if (message.accepted !== null) this.#queues.block(message)
    message.recording += facts.length
    for (const said of facts) {
      const fact = withEpoch(said, this.#epoch)
      this.#world.append(fact, message, (offset) => {
        message.recording--
        if (offset >= this.#logPosition) this.#ownOffsets.add(offset)
        this.#fold(message, fact, offset)
        if (message.recording > 0) return
        then?.()
        this.#settle(message)
      })
    }
  }

  #decideAndRecord(message: Message, command: MessageCommand, then?: () => void): void {
    const decision = decide(message.state, command)
    this.#record(message, Result.isSuccess(decision) ? decision.success : [], then)
  }

  /** A hand-over is over. A message that still has to be handed over may be taken again from `notBefore` on. */
  #release(message: Message, notBefore: number): void {
    if (!message.busy) return
    message.busy = false
    this.#handovers.set(message.route, this.handoversAt(message.route) - 1)
    if (message.state.final || message.state.stage === 'awaitingReport') {
      this.#leaveQueue(message)
    } else {
      message.blockedUntil = notBefore
      const blocked = notBefore > this.#world.now()
      this.#queues.requeue(message, blocked)
      if (!blocked) this.#queues.unblock(message)
    }
    this.#settle(message)
  }

  #unblock(message: Message): void {
    message.blockedUntil = 0
    this.#queues.unblock(message)
    this.#arm(message)
  }

  /** After a change: the timer that counts now, and the reports that had to wait. */
  #settle(message: Message): void {
    if (message.busy || message.recording > 0) return
    if (message.accepted !== null && !message.lookingUp && message.blockedUntil <= this.#world.now()) {
      this.#queues.unblock(message)
    }
    this.#arm(message)
    while (message.waitingReports.length > 0 && !this.#awaitsAnswer(message)) {
      const [first, ...rest] = message.waitingReports
      message.waitingReports = rest.length === 0 ? NONE : rest
      // It may have come to an end that others have written, and that says nothing of its parts.
      if (this.#lacksIds(message)) this.#park(first!)
      else this.#apply(message, first!)
    }
  }

  #arm(message: Message): void {
    const { blockedUntil, lookingUp, state } = message
    if (message.busy || message.recording > 0 || lookingUp || state.final) {
      this.#timers.clear(message)
      return
    }
    const blocked = blockedUntil > 0 ? blockedUntil : Number.POSITIVE_INFINITY
    switch (state.stage) {
      case 'queued':
        this.#timers.set(message, Math.min(blocked, state.expiresAt))
        return
      case 'handingOver':
        this.#timers.set(message, blocked)
        return
      case 'awaitingReport':
        this.#timers.set(message, state.reportDeadline ?? Number.POSITIVE_INFINITY)
        return
      case 'final':
        this.#timers.clear(message)
    }
  }

  #report(report: Report): void {
    const named = report.reference === null ? undefined : this.#messages.get(report.reference)
    const message =
      this.#byOperatorId.get(operatorKey(report.operator, report.operatorId, report.recipient)) ??
      (named?.key === report.recipient ? named : undefined)
    if (message === undefined || this.#lacksIds(message)) this.#park(report)
    else if (this.#awaitsAnswer(message)) message.waitingReports = [...message.waitingReports, report]
    else this.#apply(message, report)
  }

  /** A late report may correct it, and how many parts it had the read model has to tell. */
  #lacksIds({ state }: Message): boolean {
    return state.reason === 'dlr_timeout_local' && state.operatorIds.length === 0
  }

  /**
   * Reports wait for what is under way, and until it is known whether the message was handed over before. Also for an answer that was
   * lost and comes when the message is handed over again: without the ids of its parts, the report of one part would be
   * taken for all.
   */
  #awaitsAnswer(message: Message): boolean {
    if (message.busy || message.recording > 0 || message.lookingUp) return true
    const { operator, stage } = message.state
    return (
      stage === 'handingOver' &&
      operator !== null &&
      this.#world.dedupes(operator) &&
      message.accepted?.parts !== 1
    )
  }

  /** A report on a message about which nothing else is under way. */
  #apply(message: Message, report: Report): void {
    const { outcome } = report
    const { operatorIds } = message.state
    // Found by our reference: a part that was reported on before the message was carried forward without it.
    if (
      outcome.status === 'delivered' &&
      operatorIds.length > 0 &&
      !operatorIds.includes(report.operatorId)
    ) {
      return this.#drop(report, 'report_duplicate')
    }
    if (outcome.status === 'delivered' && message.awaited !== null) {
      const news = message.awaited.delete(report.operatorId)
      if (!news) return this.#drop(report, 'report_duplicate')
      if (message.awaited.size > 0) {
        // One part of several: held until the rest has come, or the message is carried forward without it.
        message.heldReports = [...message.heldReports, report.offset]
        this.#partlyReported.add(message)
        return
      }
    }
    const decision = decide(
      message.state,
      outcome.status === 'seen'
        ? { type: 'RecordReadReceipt', at: this.#world.now() }
        : { type: 'RecordReport', outcome, at: this.#world.now() },
    )
    if (Result.isFailure(decision)) return this.#drop(report, 'report_impossible')
    if (decision.success.length === 0) return this.#drop(report, 'report_duplicate')
    this.#record(message, decision.success, () => this.#reportHolds.unpin(report.offset))
  }

  #drop(report: Report, why: Happening): void {
    this.#world.happened(why)
    this.#reportHolds.unpin(report.offset)
  }

  #park(report: Report): void {
    const leaves = this.#parked.add(report, this.#world.now(), this.#logPosition)
    if (leaves !== null) this.#drop(leaves, 'report_unmatched')
  }

  /** A message long forgotten that a late report is about comes back as a finished one. */
  #rehydrate(known: KnownMessage, now: number): void {
    const message = makeMessage(known.id, known.recipient, knownState(known, now))
    message.finishedAt = now
    this.#keep(message)
    this.#finished.add(message)
    this.#index(message, known.operator, known.operatorIds)
    this.#settle(message)
  }

  /**
   * Repeats what is known of open messages at the end of the log, the oldest first, so that the log's mark can pass what is behind
   * them: not by the clock, but when most of what a restart would read is needed no more. So carrying costs at
   * most about as many records as everything else, and nothing at all where nothing happens. By the clock only what
   * some parts have been reported of: until it is carried without them, it holds the mark of the reports.
   */
  #carry(logPosition: number, now: number): void {
    const lowest = this.#logHolds.lowest()
    const behind = lowest === null ? 0 : logPosition - lowest
    const chosen = new Set<Message>()
    for (const message of this.#partlyReported) {
      if (chosen.size < CARRIED_AT_ONCE && isCarriable(message, now)) chosen.add(message)
    }
    if (behind > (this.#limits.carryBehind ?? CARRY_BEHIND) + CARRY_RATIO * this.#logHolds.size) {
      let looked = 0
      for (const owner of this.#logHolds.owners()) {
        if (chosen.size === CARRIED_AT_ONCE || looked++ === CARRY_SCAN) break
        if ('state' in owner && isCarriable(owner, now)) chosen.add(owner)
      }
    }
    if (chosen.size === 0) return
    let open: Array<Carried> = []
    for (const message of chosen) {
      const fact = reappendOpen(message.state, now)
      if (fact === null) {
        const refused = reappendRefusal(message.state, now)
        if (refused !== null) this.#record(message, [refused])
        continue
      }
      const { awaited } = message
      open.push({ message, fact: awaited === null ? fact : { ...fact, operatorIds: [...awaited] } })
      if (open.length < CARRIED_IN_ONE) continue
      this.#recordCarried(open, now)
      open = []
    }
    if (open.length > 0) this.#recordCarried(open, now)
    this.#world.happened('carried', chosen.size)
  }

  /** As `#record`, for several messages; nothing is folded, because it is what their states say. */
  #recordCarried(open: ReadonlyArray<Carried>, now: number): void {
    for (const { message } of open) message.recording++
    this.#world.carry(open, now, (offset) => {
      if (offset >= this.#logPosition) this.#ownOffsets.add(offset)
      for (const { fact, message } of open) {
        message.recording--
        this.#remember(message, fact, offset)
        if (message.recording > 0) continue
        this.#releaseReports(message)
        this.#settle(message)
      }
    })
  }

  /**
   * Claims whose lane record has not come back although the lanes have been read: the lane has lost it (its retention
   * has passed). What may have been handed over counts as sent; what was refused cannot be handed over any more.
   */
  #giveUpOrphans(now: number): void {
    this.#orphans = false
    for (const message of this.#messages.values()) {
      if (message.state.accepted || message.recording > 0) continue
      if (message.state.stage === 'handingOver') {
        this.#world.happened('assumed_sent')
        this.#decideAndRecord(message, {
          type: 'AssumeSent',
          at: now,
          reportDeadline: this.#world.reportDeadline(message.state, now),
        })
      } else if (message.state.stage === 'queued') {
        this.#world.happened('record_lost')
        this.#forget(message)
      }
    }
  }
}
