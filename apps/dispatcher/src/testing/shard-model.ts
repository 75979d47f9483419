/**
 * A model of everything around the shards, in memory: lanes, a log with offsets and fences,
 * reports, committed marks, a read model with a delay, and an operator that remembers its messages.
 * Members come and go. A crashed member loses its pending work. A replaced member continues as a
 * zombie: it claims under its old epoch and appends to the log, but without a lease it cannot write
 * to the operator.
 *
 * The operator answers late or never, so reports may come before the answer. It counts its ids for
 * each recipient, so messages to different recipients have the same ids.
 *
 * The model checks its invariants at every submit (`#write`) and at rest (`check`).
 */
import { Fence } from '@hub/actor'
import { epochOf, evolve, type LogFact, type MessageAccepted, type MessageState } from '@hub/domain'
import type { SubmitOutcome } from '@hub/operator'
import { assert } from 'vitest'
import type { ShardInput } from '../shard/inputs.ts'
import type { ReadModelMessage, Message, PreparedSubmission, DeliveryReport } from '../shard/message.ts'
import { MessageShard } from '../shard/shard.ts'

/** Each mode has its own operator, and so its own share of the buffer of each lane. */
const OPERATORS = { test: 'op', live: 'live-op' } as const
const LANES = [0, 1] as const
const ACCOUNTS = ['acc_a', 'acc_b'] as const
const REPORT_MS = 300_000
/** The model does not decrypt payloads. */
const SUBMISSION = {} as PreparedSubmission
/** Together longer than the report deadline plus the time for which a shard remembers messages. */
const QUIET_ROUNDS = 16
const ROUND_MS = 30_000

type Entry =
  | ({ readonly kind: 'facts'; readonly by: number } & Produce)
  | { readonly kind: 'opened'; readonly by: number; readonly epoch: number; readonly member: string }

interface RecipientFact {
  readonly recipient: string
  readonly fact: LogFact
}

/** One record: one fact, or several that are re-appended together. */
interface Produce {
  readonly facts: ReadonlyArray<RecipientFact>
  /** The log position of the writer at that time. */
  readonly readUpTo: number
}

interface LogFactAt extends RecipientFact {
  readonly readUpTo: number
  readonly by: number
  readonly offset: number
}

interface Submitted {
  readonly message: Message
  /** The operator's answer. */
  readonly outcome: SubmitOutcome
}

/** A message as the operator knows it. */
interface OperatorMessage {
  readonly recipient: string
  /** One for each part that the operator has. */
  readonly ids: ReadonlyArray<string>
  /** The number of parts of the whole message. */
  readonly parts: number
  /** The parts that are reported as delivered. */
  readonly delivered: Set<string>
  /** The first outcome that decides the message. */
  decided: 'delivered' | 'undelivered' | 'rejected' | 'expired' | null
}

class Member {
  readonly number: number
  readonly shard: MessageShard
  readonly fence = new Fence()
  /** The next offset to read, of lane 0, lane 1, log and reports. */
  readonly positions: Array<number>
  readonly logStart: number
  epoch = 0
  appends: Array<Produce & { readonly acknowledge: (offset: number) => void }> = []
  submits: Array<Submitted> = []

  constructor(number: number, committed: ReadonlyArray<number>, dedupes: boolean) {
    this.number = number
    this.positions = [...committed]
    this.logStart = committed[2]!
    this.shard = new MessageShard({
      operators: OPERATORS,
      dedupes: () => dedupes,
      onReady: () => {},
      reportDeadline: (_state, _submission, sentAt) => sentAt + REPORT_MS,
      limits: { buffer: 4, open: 1000, finished: 1000, reAppendBehind: 5 },
    })
  }
}

/** What reaches the operator, and how it answers. */
export type OperatorBehavior =
  | 'accepts'
  | 'refuses'
  | 'rejects'
  | 'accepts, and the answer is lost'
  | 'accepts one part, and the connection breaks'
  | 'receives nothing, and the answer is unknown'
  | 'receives nothing, because the lease is over'

/** What becomes of a produce. */
export type Landing = 'acknowledged' | 'acknowledgement lost' | 'overtaken by its repetition'

/** A report of the operator about a message that it has accepted. */
export type ReportKind =
  | 'one part delivered'
  | 'all parts delivered'
  | 'undelivered'
  | 'rejected'
  | 'expired'
  | 'seen'
  | 'the last report again'
  | 'the same id for another recipient'

export class ShardModel {
  now = 1_000_000
  readonly #dedupes: boolean
  readonly #lanes: Array<Array<{ readonly accepted: MessageAccepted; readonly appendedAt: number }>> = [
    [],
    [],
  ]
  readonly #log: Array<Entry> = []
  readonly #reports: Array<Omit<DeliveryReport, 'offset'>> = []
  #committed: ReadonlyArray<number> = [0, 0, 0, 0]
  /** The log position of the read model. */
  #projected = 0
  #members = 0
  #member: Member
  #zombie: Member | null = null
  /** Produces of former members, which may still land late. */
  #strays: Array<Produce & { readonly by: number }> = []
  readonly #accepted = new Map<string, MessageAccepted>()
  /** Messages in the order in which they first reached the operator. */
  readonly #order: Array<string> = []
  readonly #taken = new Map<string, OperatorMessage>()
  readonly #rejected = new Set<string>()
  readonly #submissions = new Map<string, { count: number; declined: number }>()
  readonly #idsOf = new Map<string, number>()
  #behavior: OperatorBehavior = 'accepts'

  constructor(dedupes: boolean) {
    this.#dedupes = dedupes
    this.#member = this.#open()
  }

  // ---- members

  #open(): Member {
    const number = ++this.#members
    const member = new Member(number, this.#committed, this.#dedupes)
    this.#readLog(member)
    member.epoch = member.fence.epoch + 1
    this.#writeFence(member)
    this.#readLog(member)
    this.#run(member, {
      type: 'opened',
      epoch: member.epoch,
      laneEnds: this.#lanes.map((lane) => lane.length),
      logPosition: member.positions[2]!,
    })
    return member
  }

  /** Executes the effects of one input. Produces and submits stay pending until a later step. */
  #run(member: Member, input: ShardInput): void {
    for (const effect of member.shard.handle(input, this.now)) {
      if (effect.type === 'submit') {
        const { message } = effect
        member.submits.push({ message, outcome: this.#write(member, message) })
      } else if (effect.type === 'append' || effect.type === 'reAppend') {
        const produce = effect.type === 'append' ? [effect] : effect.open
        member.appends.push({
          facts: produce.map(({ fact, message }) => ({ fact, recipient: message.key })),
          readUpTo: member.positions[2]!,
          acknowledge: (offset) => this.#run(member, { type: 'appended', effect, offset }),
        })
      }
    }
  }

  #writeFence(member: Member): void {
    this.#log.push({ kind: 'opened', by: member.number, epoch: member.epoch, member: `m${member.number}` })
  }

  /**
   * The process ends. Its pending produces are `lost`, or may still land. The operator keeps its
   * messages.
   */
  crash(lost: boolean): void {
    if (lost) this.#member.appends = []
    this.#end(this.#member)
    this.#member = this.#open()
  }

  /** The shard moves to another member, and the old member does not know it. */
  rebalance(): void {
    this.endZombie()
    this.#zombie = this.#member
    this.#member = this.#open()
  }

  endZombie(): void {
    if (this.#zombie !== null) this.#end(this.#zombie)
    this.#zombie = null
  }

  #end(member: Member): void {
    for (const { readUpTo, facts } of member.appends)
      this.#strays.push({ by: member.number, facts, readUpTo })
    member.appends = []
    member.submits = []
  }

  /** The zombie if there is one and it is meant; otherwise the member. */
  #memberOf(zombie: boolean): Member {
    return zombie ? (this.#zombie ?? this.#member) : this.#member
  }

  // ---- Kafka

  accept(lane: number, recipient: number, parts: number, lifetime: number, account = 0): void {
    const messageId = `msg_${this.#accepted.size}`
    const accepted: MessageAccepted = {
      type: 'MessageAccepted',
      messageId,
      at: this.now,
      account: ACCOUNTS[account]!,
      mode: recipient % 2 === 0 ? 'test' : 'live',
      class: lane === 0 ? 'otp' : 'service',
      recipient: `r${recipient}`,
      template: 't',
      sender: 's',
      clientRef: null,
      batch: null,
      parts,
      price: { amount: '0.00', currency: 'RUB' },
      variables: [],
      expiresAt: this.now + lifetime,
      payloadKey: 'k',
      ciphertext: new Uint8Array(),
      republished: false,
    }
    this.#accepted.set(messageId, accepted)
    this.#lanes[lane]!.push({ accepted, appendedAt: this.now })
  }

  /**
   * command-api publishes a message again. Within a minute the repeat may look like the original.
   */
  repeat(which: number): void {
    const all = [...this.#accepted.values()]
    const accepted = all[which % Math.max(1, all.length)]
    if (accepted === undefined) return
    const republished = this.now - accepted.at > 60_000
    this.#lanes[accepted.class === 'otp' ? 0 : 1]!.push({
      accepted: { ...accepted, republished },
      appendedAt: this.now,
    })
  }

  /**
   * Lands pending produces of a member. Without an acknowledgement, the member produces them again.
   */
  land(zombie: boolean, count: number, how: Landing): void {
    const member = this.#memberOf(zombie)
    for (const pending of member.appends.slice(0, count)) {
      const { acknowledge, readUpTo, facts } = pending
      const produce = { by: member.number, facts, readUpTo }
      if (how === 'overtaken by its repetition') {
        this.#strays.push(produce)
        continue
      }
      this.#log.push({ kind: 'facts', ...produce })
      if (how === 'acknowledgement lost') continue
      member.appends.splice(member.appends.indexOf(pending), 1)
      acknowledge(this.#log.length - 1)
    }
  }

  landStray(): void {
    const stray = this.#strays.shift()
    if (stray !== undefined) this.#log.push({ kind: 'facts', ...stray })
  }

  readLog(): void {
    this.#readLog(this.#member)
  }

  #readLog(member: Member): void {
    for (; member.positions[2]! < this.#log.length; member.positions[2]!++) {
      const offset = member.positions[2]!
      const entry = this.#log[offset]!
      if (entry.kind === 'opened') member.fence.observe(offset, entry)
      else if (!member.shard.isOwn(offset)) {
        for (const { fact, recipient } of entry.facts) {
          this.#run(member, { type: 'fact', offset, recipient, fact, fence: member.fence })
        }
      }
    }
  }

  readLane(zombie: boolean, lane: number, count: number): void {
    const member = this.#memberOf(zombie)
    const { positions, shard } = member
    const seek = () => {
      positions[lane] = shard.queues.cursor(lane).seekTarget(positions[lane]!, this.now) ?? positions[lane]!
    }
    for (let i = 0; i < count; i++) {
      seek()
      const offset = positions[lane]!
      const record = this.#lanes[lane]![offset]
      if (record === undefined || shard.isFull(lane, this.now)) return
      positions[lane] = offset + 1
      const { accepted, appendedAt } = record
      if (shard.judge(lane, offset, accepted) !== 'keep') continue
      this.#run(member, { type: 'accepted', lane, offset, appendedAt, accepted })
    }
    seek()
  }

  readReports(count: number): void {
    const { positions } = this.#member
    for (let i = 0; i < count && positions[3]! < this.#reports.length; i++) {
      const offset = positions[3]!++
      this.#run(this.#member, { type: 'report', report: { ...this.#reports[offset]!, offset } })
    }
  }

  /**
   * The low-water marks reach the broker. `answered`: the member learns it. The broker refuses
   * those of a zombie. A crash may tear the commit apart: then only the mark of the log or only the
   * others arrive.
   */
  commit(answered: boolean, torn: 'log only' | 'all but the log' | null = null): void {
    const { fence, logStart, positions, shard } = this.#member
    const needed = shard.lowestPinned()
    const mark = (lowest: number | null, i: number) =>
      lowest === null ? positions[i]! : Math.min(lowest, positions[i]!)
    const marks = [
      mark(needed.lanes[0]!, 0),
      mark(needed.lanes[1]!, 1),
      fence.lastAtOrBefore(mark(needed.log, 2)) ?? logStart,
      mark(needed.reports, 3),
    ]
    if (torn !== null) {
      this.#committed = marks.map((at, i) => ((torn === 'log only') === (i === 2) ? at : this.#committed[i]!))
      return this.crash(false)
    }
    this.#committed = marks
    if (!answered) return
    const lanes = this.#committed.slice(0, 2)
    this.#run(this.#member, { type: 'committed', lanes, logPosition: positions[2]! })
  }

  repeatFence(): void {
    this.#writeFence(this.#member)
  }

  // ---- handovers

  take(zombie: boolean, count: number): void {
    const member = this.#memberOf(zombie)
    for (const lane of LANES) {
      for (let i = 0; i < count; i++) {
        const choices = [OPERATORS.test, OPERATORS.live].flatMap((operator) =>
          ACCOUNTS.map((account) => ({ account, operator })),
        )
        let message: Message | null = null
        for (let turn = 0; message === null && turn < choices.length; turn++) {
          const { account, operator } = choices[(i + turn) % choices.length]!
          message = member.shard.take(lane, operator, account)
        }
        if (message === null) break
        const preparation = { type: 'prepared', submission: SUBMISSION } as const
        this.#run(member, { type: 'prepared', message, preparation })
      }
    }
  }

  setBehavior(how: OperatorBehavior): void {
    this.#behavior = how
  }

  /** The claim is acknowledged. With a lease, the message reaches the operator. */
  #write(member: Member, message: Message): SubmitOutcome {
    if (member !== this.#member) return { type: 'notWritten' }
    const { id, laneRecord } = message
    if (laneRecord === null) throw new Error('The shard must keep the payload until the handover.')
    const known = this.#factsOf(id).some(
      ({ by, fact, offset }) =>
        SETTLES.has(fact.type) &&
        // The member cannot know the facts of others beyond its own log position.
        (by === member.number || offset < member.positions[2]!),
    )
    assert.isFalse(known, `${id} is not submitted when its outcome is in the log`)
    const under = member.submits.filter((other) => other.message.key === message.key)
    assert.lengthOf(under, 0, 'one handover at a time for each recipient')
    assert.isBelow(this.now, laneRecord.expiresAt + 1, 'no message is submitted after its time to live')
    if (this.#behavior === 'receives nothing, because the lease is over') return { type: 'notWritten' }

    const before = this.#submissions.get(id) ?? { count: 0, declined: 0 }
    if (!this.#dedupes) {
      assert.strictEqual(before.count, before.declined, `${id} is submitted again only after a refusal`)
    }
    if (before.count === 0) this.#order.push(id)
    this.#submissions.set(id, before)
    before.count++
    const taken = this.#taken.get(id)
    if (taken !== undefined) {
      return this.#behavior === 'accepts' ? { type: 'accepted', operatorIds: taken.ids } : { type: 'unknown' }
    }
    if (this.#dedupes && this.#rejected.has(id)) return { type: 'rejected', reason: 'operator_rejected' }
    switch (this.#behavior) {
      case 'refuses':
        before.declined++
        return { type: 'refused', submitted: true, retryAfterMs: 5000 }
      case 'rejects':
        before.declined++
        this.#rejected.add(id)
        return { type: 'rejected', reason: 'operator_rejected' }
      case 'receives nothing, and the answer is unknown':
        return { type: 'unknown' }
      case 'accepts':
      case 'accepts, and the answer is lost':
      case 'accepts one part, and the connection breaks': {
        const number = this.#idsOf.get(message.key) ?? 0
        this.#idsOf.set(message.key, number + 1)
        const { parts } = laneRecord
        // An operator that deduplicates takes a message as a whole.
        const isCut = !this.#dedupes && this.#behavior === 'accepts one part, and the connection breaks'
        const ids = Array.from({ length: isCut ? 1 : parts }, (_, part) => `${number}/${part}`)
        this.#taken.set(id, { recipient: message.key, ids, parts, delivered: new Set(), decided: null })
        return this.#behavior === 'accepts' ? { type: 'accepted', operatorIds: ids } : { type: 'unknown' }
      }
    }
  }

  /** The oldest answer arrives. */
  answer(zombie: boolean): void {
    const member = this.#memberOf(zombie)
    const submitted = member.submits.shift()
    if (submitted === undefined) return
    const { message, outcome } = submitted
    this.#run(member, { type: 'answered', message, outcome, submission: SUBMISSION })
  }

  /** The usual sequence: read, claim, submit, answer, record. */
  work(zombie: boolean): void {
    for (const lane of LANES) this.readLane(zombie, lane, 5)
    this.take(zombie, 3)
    this.land(zombie, 10, 'acknowledged')
    this.answer(zombie)
    this.answer(zombie)
    this.land(zombie, 10, 'acknowledged')
  }

  // ---- reports

  report(which: number, what: ReportKind): void {
    const all = [...this.#taken]
    const chosen = all[which % Math.max(1, all.length)]
    if (chosen === undefined) return
    const [id, taken] = chosen
    const send = (operatorId: string, outcome: DeliveryReport['outcome'], recipient = taken.recipient) =>
      this.#reports.push({
        operator: OPERATORS[this.#accepted.get(id)!.mode],
        operatorId,
        // An operator that deduplicates by our reference also returns it.
        reference: this.#dedupes && recipient === taken.recipient ? id : null,
        recipient,
        receivedAt: this.now,
        outcome,
      })
    const open = taken.ids.filter((part) => !taken.delivered.has(part))
    const deliver = (parts: ReadonlyArray<string>) => {
      for (const part of parts) {
        taken.delivered.add(part)
        send(part, { status: 'delivered' })
      }
      if (taken.delivered.size === taken.parts) taken.decided = 'delivered'
    }
    const first = open[0] ?? taken.ids[0]!
    switch (what) {
      case 'one part delivered':
        if (taken.decided === null) deliver(open.slice(0, 1))
        return
      case 'all parts delivered':
        if (taken.decided === null) deliver(open)
        return
      case 'undelivered':
      case 'rejected':
      case 'expired':
        if (taken.decided !== null) return
        taken.decided = what
        send(
          first,
          what === 'undelivered'
            ? { status: what, reason: 'recipient_blocked' }
            : what === 'rejected'
              ? { status: what, reason: 'spam_filter_sender' }
              : { status: what, reason: 'dlr_timeout' },
        )
        return
      case 'seen':
        // A read receipt may overtake the delivery report. It proves the delivery.
        taken.decided ??= 'delivered'
        if (taken.decided === 'delivered') send(taken.ids[0]!, { status: 'seen' })
        return
      case 'the last report again': {
        const last = this.#reports.findLast((report) => report.recipient === taken.recipient)
        if (last !== undefined) this.#reports.push(last)
        return
      }
      case 'the same id for another recipient':
        send(first, { status: 'undelivered', reason: 'recipient_blocked' }, 'stranger')
        return
    }
  }

  // ---- time, and the read model

  advance(ms: number): void {
    this.now += ms
    this.#run(this.#member, { type: 'tick' })
  }

  /** Time passes for the zombie too. */
  tickZombie(): void {
    const zombie = this.#zombie
    if (zombie !== null) this.#run(zombie, { type: 'tick' })
  }

  project(): void {
    this.#projected = this.#log.length
  }

  lookUp(): void {
    const { shard } = this.#member
    for (const message of shard.messagesToLookUp(100)) {
      if ((message.lookupAfter?.log ?? 0) > this.#projected) continue
      const status = this.stateOf(message.id, this.#projected)?.status ?? 'accepted'
      const sentOrFinal = status !== 'accepted'
      this.#run(this.#member, { type: 'messageLookedUp', message, sentOrFinal })
    }
    for (const parked of shard.parkedReports.due(this.now, 100)) {
      if (parked.logOffset > this.#projected) continue
      const known = this.#knownOf(parked.report)
      this.#run(this.#member, { type: 'reportLookedUp', parked, known })
    }
  }

  /** The state of a message from the log before `end`, without void claims. */
  stateOf(id: string, end = this.#log.length): MessageState | null {
    let state: MessageState | null = null
    for (const { fact } of this.#factsOf(id, end)) state = evolve(state, fact)
    return state
  }

  #factsOf(id: string, end = this.#log.length): ReadonlyArray<LogFactAt> {
    const fence = new Fence()
    const found: Array<LogFactAt> = []
    for (const [offset, entry] of this.#log.slice(0, end).entries()) {
      if (entry.kind === 'opened') {
        fence.observe(offset, entry)
        continue
      }
      const { by, readUpTo, facts } = entry
      for (const one of facts) {
        if (one.fact.messageId === id && !isVoid(one.fact, fence))
          found.push({ ...one, by, readUpTo, offset })
      }
    }
    return found
  }

  #knownOf(report: DeliveryReport): ReadModelMessage | null {
    for (const accepted of this.#accepted.values()) {
      if (accepted.recipient !== report.recipient) continue
      const state = this.stateOf(accepted.messageId, this.#projected)
      if (state === null) continue
      const matches =
        report.reference === null
          ? state.operatorIds.includes(report.operatorId)
          : report.reference === accepted.messageId
      if (!matches) continue
      return {
        id: state.id,
        recipient: accepted.recipient,
        class: accepted.class,
        status: state.status,
        reason: state.reason,
        attempts: state.attempts,
        seen: state.seen,
        operator: OPERATORS[accepted.mode],
        operatorIds: state.operatorIds.length === 0 ? [report.operatorId] : state.operatorIds,
      }
    }
    return null
  }

  // ---- the end

  /** From now on everything works, and time passes until nothing changes any more. */
  settle(): void {
    this.endZombie()
    this.#behavior = 'accepts'
    for (let quiet = 0; quiet < QUIET_ROUNDS; quiet++) {
      const before = this.#log.length + this.#strays.length
      this.landStray()
      this.readLog()
      for (const lane of LANES) this.readLane(false, lane, 50)
      this.project()
      this.lookUp()
      this.take(false, 50)
      this.#landAll()
      while (this.#member.submits.length > 0) this.answer(false)
      this.#landAll()
      this.readReports(50)
      this.#landAll()
      this.readLog()
      this.commit(true)
      this.#landAll()
      this.advance(ROUND_MS)
      this.#landAll()
      if (this.#log.length + this.#strays.length !== before) quiet = 0
    }
  }

  #landAll(): void {
    while (this.#member.appends.length > 0) this.land(false, 50, 'acknowledged')
  }

  /** Late reports: each accepted message that is not decided yet is delivered after all. */
  reportLate(): void {
    for (const which of [...this.#taken.keys()].keys()) this.report(which, 'all parts delivered')
  }

  check(): void {
    for (const id of this.#accepted.keys()) this.#checkMessage(id)
    this.#checkOrder()
    const { positions, shard, fence } = this.#member
    assert.strictEqual(shard.openCount, 0, 'no message is open')
    assert.strictEqual(shard.handovers.count, 0, 'no handover is in progress')
    assert.strictEqual(shard.finishedCount, 0, 'no message is remembered')
    assert.deepStrictEqual(
      [this.#committed[0], this.#committed[1], this.#committed[3]],
      [this.#lanes[0]!.length, this.#lanes[1]!.length, this.#reports.length],
      'at rest the low-water marks are at the ends',
    )
    assert.strictEqual(this.#committed[2], fence.newestOffset, 'the mark of the log is at the newest fence')
    assert.strictEqual(positions[2], this.#log.length)
  }

  #checkMessage(id: string): void {
    // The statuses of the message, in the order in which a reader of the log sees them.
    let state: MessageState | null = null
    const seen: Array<string> = ['accepted']
    let sent: LogFactAt | null = null
    let withIds = false
    let assumedAgain = false
    for (const produce of this.#factsOf(id)) {
      const { fact } = produce
      if (fact.type === 'MessageSent') {
        assumedAgain ||= sent !== null && fact.operatorIds.length === 0
        sent ??= produce
      }
      state = evolve(state, fact)
      const now = state.reason === null ? state.status : `${state.status} ${state.reason}`
      if (seen.at(-1) === now) continue
      seen.push(now)
      // A writer that has not read the answer of another member knows no ids. The late assumption
      // of a former owner may be the only fact that is left behind the mark.
      withIds =
        !assumedAgain &&
        sent?.fact.type === 'MessageSent' &&
        sent.fact.operatorIds.length > 0 &&
        (sent.by === produce.by || sent.offset < produce.readUpTo)
    }
    const history = seen.join(', ')
    for (const [i, status] of seen.slice(1).entries()) {
      assert.include(ALLOWED[seen[i]!] ?? [], status, `${id}: ${history}`)
    }
    const end = seen.at(-1)!
    const taken = this.#taken.get(id)
    assert.isTrue(state?.final === true, `${id} is final: ${history}`)

    const facts = this.#factsOf(id)
    const claimed = facts.some(({ fact }) => fact.type === 'HandoverStarted')
    const firstEnd = facts.find(({ fact }) => FINAL.has(fact.type))?.fact
    if (firstEnd?.type === 'MessageExpired' && !claimed) {
      assert.strictEqual(firstEnd.reason, 'ttl_expired_before_submit', `${id} was never claimed: ${history}`)
    }

    // The statuses are true.
    if (seen.includes('sent')) {
      assert.isTrue(claimed, `${id} is sent although it was never claimed: ${history}`)
    }
    if (end === 'expired ttl_expired_before_submit') {
      assert.isUndefined(taken, `${id} was submitted, but its reason says that a resend is safe: ${history}`)
    }
    if (end === 'rejected operator_rejected') {
      assert.isUndefined(taken, `${id} was accepted by the operator, but is rejected: ${history}`)
    }
    if (REPORTED.has(end)) {
      // If the answer with the ids was lost, a report is matched by its recipient.
      const possible = withIds
        ? [taken]
        : [...this.#taken.values()].filter(({ recipient }) => recipient === this.#accepted.get(id)!.recipient)
      // Without ids, as many parts must be reported as the message has. An operator that deduplicates reports
      // one part for all.
      const reported = possible.reduce((sum, one) => sum + (one?.delivered.size ?? 0), 0)
      const needed = this.#dedupes ? 1 : this.#accepted.get(id)!.parts
      assert.include(
        [...possible.map((one) => one?.decided), ...(!withIds && reported >= needed ? ['delivered'] : [])],
        REPORTED.get(end),
        `${id} has the status of its reports: ${history}`,
      )
    }
    if (state?.seen === true)
      assert.strictEqual(end, 'delivered', `${id} was seen, so it is delivered: ${history}`)
    const decided = taken?.decided ?? null
    // Late reports correct to these two. Without ids a report may not find its message. Reports of
    // single parts before our deadline are forgotten with the message, so the other parts do not
    // complete it.
    const incomplete =
      taken !== undefined &&
      taken.ids.length > 1 &&
      decided === 'delivered' &&
      history.includes('dlr_timeout_local')
    if ((decided === 'delivered' || decided === 'undelivered') && withIds && !incomplete) {
      assert.strictEqual(REPORTED.get(end), decided, `${id} has the reported status: ${history}`)
    }
  }

  #checkOrder(): void {
    for (const lane of this.#lanes) {
      const place = new Map<string, number>()
      for (const [offset, { accepted }] of lane.entries()) {
        if (!place.has(accepted.messageId)) place.set(accepted.messageId, offset)
      }
      const last = new Map<string, number>()
      for (const id of this.#order) {
        const at = place.get(id)
        if (at === undefined) continue
        const { account, recipient } = this.#accepted.get(id)!
        // The shard may read past the messages of an account whose share is full.
        const key = `${account} ${recipient}`
        assert.isAbove(at, last.get(key) ?? -1, 'messages of an account to a recipient keep their order')
        last.set(key, at)
      }
    }
  }
}

const FINAL: ReadonlySet<string> = new Set([
  'MessageDelivered',
  'MessageUndelivered',
  'MessageRejected',
  'MessageExpired',
])
const SETTLES: ReadonlySet<string> = new Set(['MessageSent', 'OpenMessageCarried', ...FINAL])

const isVoid = (fact: LogFact, fence: Fence): boolean => {
  const epoch = epochOf(fact)
  return epoch !== null && fence.isVoid(epoch)
}

const ENDS = [
  'delivered',
  'undelivered recipient_blocked',
  'rejected spam_filter_sender',
  'rejected operator_rejected',
  'expired dlr_timeout',
]
/** Source: MSG-24 to MSG-26. */
const ALLOWED: Readonly<Record<string, ReadonlyArray<string>>> = {
  accepted: ['sent', ...ENDS, 'expired ttl_expired_before_submit'],
  sent: [...ENDS, 'expired dlr_timeout_local'],
  'expired dlr_timeout_local': ['delivered', 'undelivered recipient_blocked'],
}
/** Final statuses that only a report can cause. */
const REPORTED: ReadonlyMap<string, OperatorMessage['decided']> = new Map([
  ['delivered', 'delivered'],
  ['undelivered recipient_blocked', 'undelivered'],
  ['rejected spam_filter_sender', 'rejected'],
  ['expired dlr_timeout', 'expired'],
])
