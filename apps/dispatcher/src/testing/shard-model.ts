/**
 * A world around shards, in memory: lanes, a log with offsets and fences, reports, committed marks, a read model that lags, and an operator
 * that remembers what it took. Members come and go: one that crashes is gone with what it had not written; one that was replaced goes on as a
 * zombie, claims under its old epoch and writes to the log, but cannot write to the operator, because its lease is over.
 *
 * The operator decides when a message reaches it, and answers later or never, so that reports may come before the answer. Its ids count per
 * recipient: two recipients' messages have the same ids.
 *
 * What must hold is checked at every hand-over (`#write`) and at rest (`check`).
 */
import { Fence } from '@hub/actor'
import { epochOf, evolve, type LogFact, type MessageAccepted, type MessageState } from '@hub/domain'
import type { SubmitOutcome } from '@hub/operator'
import { assert } from 'vitest'
import type { ShardEffects } from '../shard/effects.ts'
import type { KnownMessage, Message, PreparedSubmission, Report } from '../shard/message.ts'
import { MessageShard } from '../shard/shard.ts'

/** Each mode has its own operator, and so its own share of the buffer of each lane. */
const OPERATORS = { test: 'op', live: 'live-op' } as const
const LANES = [0, 1] as const
const REPORT_MS = 300_000
/** The model does not decrypt payloads. */
const SUBMISSION = {} as PreparedSubmission
/** Longer together than anything is waited for: the report deadline, and then what is remembered. */
const QUIET_ROUNDS = 16
const ROUND_MS = 30_000

type Entry =
  | ({ readonly kind: 'facts'; readonly by: number } & Written)
  | { readonly kind: 'opened'; readonly by: number; readonly epoch: number; readonly member: string }

interface Said {
  readonly recipient: string
  readonly fact: LogFact
}

/** One record: one fact, or several that are carried forward together. */
interface Written {
  readonly said: ReadonlyArray<Said>
  /** How far its writer had read the log when it said so. */
  readonly knew: number
}

interface Landed extends Said {
  readonly knew: number
  readonly by: number
  readonly offset: number
}

interface Submitted {
  readonly message: Message
  /** What the operator answers; `null` where nothing was written. */
  readonly outcome: SubmitOutcome
}

/** What the operator knows of a message. */
interface Taken {
  readonly recipient: string
  readonly ids: ReadonlyArray<string>
  /** Parts reported delivered. */
  readonly delivered: Set<string>
  /** The first outcome that settles the message. */
  decided: 'delivered' | 'undelivered' | 'rejected' | 'expired' | null
}

class Member {
  readonly number: number
  readonly shard: MessageShard
  readonly fence = new Fence()
  /** Lane 0, lane 1, log, reports: the next offset to read. */
  readonly positions: Array<number>
  readonly logStart: number
  epoch = 0
  appends: Array<Written & { readonly acknowledge: (offset: number) => void }> = []
  submits: Array<Submitted> = []

  constructor(number: number, committed: ReadonlyArray<number>, dedupes: boolean) {
    this.number = number
    this.positions = [...committed]
    this.logStart = committed[2]!
    this.shard = new MessageShard({
      operators: OPERATORS,
      dedupes: () => dedupes,
      reportDeadline: (_state, sentAt) => sentAt + REPORT_MS,
      limits: { buffer: 4, open: 1000, finished: 1000, reAppendBehind: 5 },
    })
  }
}

/** How an operator answers, and what reaches it. */
export type Answering =
  | 'accepts'
  | 'refuses'
  | 'rejects'
  | 'takes, and the answer is lost'
  | 'never hears of it'
  | 'is not written to, because the lease is over'

/** What becomes of a produce. */
export type Landing = 'acknowledged' | 'acknowledgement lost' | 'overtaken by its repetition'

/** What an operator says of a message it took. */
export type Telling =
  | 'one part delivered'
  | 'all parts delivered'
  | 'undelivered'
  | 'rejected'
  | 'expired'
  | 'seen'
  | 'the last one again'
  | 'under this id, of somebody else'

export class ShardModel {
  now = 1_000_000
  readonly #dedupes: boolean
  readonly #lanes: Array<Array<{ readonly accepted: MessageAccepted; readonly appendedAt: number }>> = [
    [],
    [],
  ]
  readonly #log: Array<Entry> = []
  readonly #reports: Array<Omit<Report, 'offset'>> = []
  #committed: ReadonlyArray<number> = [0, 0, 0, 0]
  /** How far the read model has come in the log. */
  #projected = 0
  #members = 0
  #member: Member
  #zombie: Member | null = null
  /** Produces of members that are gone; they may land late all the same. */
  #strays: Array<Written & { readonly by: number }> = []
  readonly #accepted = new Map<string, MessageAccepted>()
  /** Messages in the order in which they first reached the operator. */
  readonly #order: Array<string> = []
  readonly #taken = new Map<string, Taken>()
  readonly #rejected = new Set<string>()
  readonly #submissions = new Map<string, { count: number; declined: number }>()
  readonly #idsOf = new Map<string, number>()
  #answering: Answering = 'accepts'

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
    this.#run(
      member,
      member.shard.opened({
        epoch: member.epoch,
        now: this.now,
        laneEnds: this.#lanes.map((lane) => lane.length),
        logPosition: member.positions[2]!,
      }),
    )
    return member
  }

  /** Executes the effects of one input. Produces and submits stay pending until a later step. */
  #run(member: Member, effects: ShardEffects): void {
    for (const effect of effects) {
      if (effect.type === 'submit') {
        const { message } = effect
        member.submits.push({ message, outcome: this.#write(member, message) })
      } else if (effect.type === 'append' || effect.type === 'reAppend') {
        const written = effect.type === 'append' ? [effect] : effect.open
        member.appends.push({
          said: written.map(({ fact, message }) => ({ fact, recipient: message.key })),
          knew: member.positions[2]!,
          acknowledge: (offset) => this.#run(member, member.shard.onAppended(effect, offset, this.now)),
        })
      }
    }
  }

  #writeFence(member: Member): void {
    this.#log.push({ kind: 'opened', by: member.number, epoch: member.epoch, member: `m${member.number}` })
  }

  /** The process is gone. What it had on its way to the log is `lost` or may still land; what it had given to the operator is there. */
  crash(lost: boolean): void {
    if (lost) this.#member.appends = []
    this.#bury(this.#member)
    this.#member = this.#open()
  }

  /** The shard goes to another member, and the old one does not know. */
  rebalance(): void {
    this.endZombie()
    this.#zombie = this.#member
    this.#member = this.#open()
  }

  endZombie(): void {
    if (this.#zombie !== null) this.#bury(this.#zombie)
    this.#zombie = null
  }

  #bury(member: Member): void {
    for (const { knew, said } of member.appends) this.#strays.push({ by: member.number, said, knew })
    member.appends = []
    member.submits = []
  }

  /** The member, or the zombie where there is one. */
  #which(zombie: boolean): Member {
    return zombie ? (this.#zombie ?? this.#member) : this.#member
  }

  // ---- Kafka

  accept(lane: number, recipient: number, parts: number, lifetime: number): void {
    const messageId = `msg_${this.#accepted.size}`
    const accepted: MessageAccepted = {
      type: 'MessageAccepted',
      messageId,
      at: this.now,
      account: 'acc',
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
      sealingKey: 'k',
      sealed: new Uint8Array(),
      republished: false,
    }
    this.#accepted.set(messageId, accepted)
    this.#lanes[lane]!.push({ accepted, appendedAt: this.now })
  }

  /** command-api publishes one again; within a minute it may look like the first. */
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

  /** Lands pending produces of a member. Without an acknowledgement, the member produces them again. */
  land(zombie: boolean, count: number, how: Landing): void {
    const member = this.#which(zombie)
    for (const pending of member.appends.slice(0, count)) {
      const { acknowledge, knew, said } = pending
      const written = { by: member.number, said, knew }
      if (how === 'overtaken by its repetition') {
        this.#strays.push(written)
        continue
      }
      this.#log.push({ kind: 'facts', ...written })
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
        for (const { fact, recipient } of entry.said) {
          this.#run(member, member.shard.onFact(offset, recipient, fact, member.fence, this.now))
        }
      }
    }
  }

  readLane(zombie: boolean, lane: number, count: number): void {
    const member = this.#which(zombie)
    const { positions, shard } = member
    const seek = () => {
      positions[lane] = shard.seekTarget(lane, positions[lane]!, this.now) ?? positions[lane]!
    }
    for (let i = 0; i < count; i++) {
      seek()
      const offset = positions[lane]!
      const record = this.#lanes[lane]![offset]
      if (record === undefined || shard.isFull(lane, this.now)) return
      positions[lane] = offset + 1
      this.#run(member, shard.onAccepted(lane, offset, record.appendedAt, record.accepted, this.now))
    }
    seek()
  }

  readReports(count: number): void {
    const { positions, shard } = this.#member
    for (let i = 0; i < count && positions[3]! < this.#reports.length; i++) {
      const offset = positions[3]!++
      this.#run(this.#member, shard.onReport({ ...this.#reports[offset]!, offset }, this.now))
    }
  }

  /**
   * The low-water marks reach the broker. `answered`: the member learns it. The broker refuses those of a
   * zombie. A crash may tear the commit apart: then only the mark of the log or only the others arrive.
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
    this.#run(this.#member, shard.committed(this.#committed.slice(0, 2), positions[2]!, this.now))
  }

  carryFence(): void {
    this.#writeFence(this.#member)
  }

  // ---- handing over

  take(zombie: boolean, count: number): void {
    const member = this.#which(zombie)
    for (const lane of LANES) {
      for (let i = 0; i < count; i++) {
        const [first, second] =
          i % 2 === 0 ? [OPERATORS.test, OPERATORS.live] : [OPERATORS.live, OPERATORS.test]
        const message = member.shard.take(lane, first) ?? member.shard.take(lane, second)
        if (message === null) break
        this.#run(member, member.shard.claim(message, SUBMISSION, this.now))
      }
    }
  }

  answering(how: Answering): void {
    this.#answering = how
  }

  /** A claim is acknowledged, and the message leaves the process where its lease holds. */
  #write(member: Member, message: Message): SubmitOutcome {
    if (member !== this.#member) return { type: 'notWritten' }
    const { accepted, id } = message
    if (accepted === null) throw new Error('its payload is held until it was handed over')
    const known = this.#factsOf(id).some(
      ({ by, fact, offset }) =>
        SETTLES.has(fact.type) &&
        // What somebody else has written behind the own reading nobody can know.
        (by === member.number || offset < member.positions[2]!),
    )
    assert.isFalse(known, `${id} is not handed over when its outcome is in the log`)
    const under = member.submits.filter((other) => other.message.key === message.key)
    assert.lengthOf(under, 0, 'one hand-over at a time for a recipient')
    assert.isBelow(this.now, accepted.expiresAt + 1, 'nothing is handed over after its lifetime')
    if (this.#answering === 'is not written to, because the lease is over') return { type: 'notWritten' }

    const before = this.#submissions.get(id) ?? { count: 0, declined: 0 }
    if (!this.#dedupes) {
      assert.strictEqual(before.count, before.declined, `${id} is handed over again only after a refusal`)
    }
    if (before.count === 0) this.#order.push(id)
    this.#submissions.set(id, before)
    before.count++
    const taken = this.#taken.get(id)
    if (taken !== undefined) {
      return this.#answering === 'accepts'
        ? { type: 'accepted', operatorIds: taken.ids }
        : { type: 'unknown' }
    }
    if (this.#dedupes && this.#rejected.has(id)) return { type: 'rejected', reason: 'operator_rejected' }
    switch (this.#answering) {
      case 'refuses':
        before.declined++
        return { type: 'refused', retryAfterMs: 5000 }
      case 'rejects':
        before.declined++
        this.#rejected.add(id)
        return { type: 'rejected', reason: 'operator_rejected' }
      case 'never hears of it':
        return { type: 'unknown' }
      case 'accepts':
      case 'takes, and the answer is lost': {
        const number = this.#idsOf.get(message.key) ?? 0
        this.#idsOf.set(message.key, number + 1)
        const ids = Array.from({ length: accepted.parts }, (_, part) => `${number}/${part}`)
        this.#taken.set(id, { recipient: message.key, ids, delivered: new Set(), decided: null })
        return this.#answering === 'accepts' ? { type: 'accepted', operatorIds: ids } : { type: 'unknown' }
      }
    }
  }

  /** The oldest answer arrives. */
  answer(zombie: boolean): void {
    const member = this.#which(zombie)
    const submitted = member.submits.shift()
    if (submitted === undefined) return
    const { message, outcome } = submitted
    this.#run(member, member.shard.submitAnswered(message, outcome, this.now + REPORT_MS, this.now))
  }

  /** A few steps that usually come together: read, claimed, handed over, answered, written down. */
  work(zombie: boolean): void {
    for (const lane of LANES) this.readLane(zombie, lane, 5)
    this.take(zombie, 3)
    this.land(zombie, 10, 'acknowledged')
    this.answer(zombie)
    this.answer(zombie)
    this.land(zombie, 10, 'acknowledged')
  }

  // ---- reports

  tell(which: number, what: Telling): void {
    const all = [...this.#taken]
    const chosen = all[which % Math.max(1, all.length)]
    if (chosen === undefined) return
    const [id, taken] = chosen
    const say = (operatorId: string, outcome: Report['outcome'], recipient = taken.recipient) =>
      this.#reports.push({
        operator: OPERATORS[this.#accepted.get(id)!.mode],
        operatorId,
        // Those that dedupe by our reference tell it, too.
        reference: this.#dedupes && recipient === taken.recipient ? id : null,
        recipient,
        outcome,
      })
    const open = taken.ids.filter((part) => !taken.delivered.has(part))
    const deliver = (parts: ReadonlyArray<string>) => {
      for (const part of parts) {
        taken.delivered.add(part)
        say(part, { status: 'delivered' })
      }
      if (taken.delivered.size === taken.ids.length) taken.decided = 'delivered'
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
        say(
          first,
          what === 'undelivered'
            ? { status: what, reason: 'recipient_blocked' }
            : what === 'rejected'
              ? { status: what, reason: 'spam_filter_sender' }
              : { status: what, reason: 'dlr_timeout' },
        )
        return
      case 'seen':
        // It may overtake its delivery report, and proves it.
        taken.decided ??= 'delivered'
        if (taken.decided === 'delivered') say(taken.ids[0]!, { status: 'seen' })
        return
      case 'the last one again': {
        const last = this.#reports.findLast((report) => report.recipient === taken.recipient)
        if (last !== undefined) this.#reports.push(last)
        return
      }
      case 'under this id, of somebody else':
        say(first, { status: 'undelivered', reason: 'recipient_blocked' }, 'stranger')
        return
    }
  }

  // ---- time, and the read model

  advance(ms: number): void {
    this.now += ms
    this.#run(this.#member, this.#member.shard.tick(this.now))
  }

  /** A zombie's clock goes on as well. */
  tickZombie(): void {
    if (this.#zombie !== null) this.#run(this.#zombie, this.#zombie.shard.tick(this.now))
  }

  project(): void {
    this.#projected = this.#log.length
  }

  lookUp(): void {
    const { shard } = this.#member
    for (const message of shard.messagesToLookUp(100)) {
      if ((message.lookupAfter?.log ?? 0) > this.#projected) continue
      const status = this.stateOf(message.id, this.#projected)?.status ?? 'accepted'
      this.#run(this.#member, shard.lookedUp(message, status !== 'accepted', this.now))
    }
    for (const parked of shard.reportsToLookUp(100, this.now)) {
      if (parked.logOffset > this.#projected) continue
      this.#run(this.#member, shard.reportLookedUp(parked, this.#knownOf(parked.report), this.now))
    }
  }

  /** What the log says of a message up to an offset, void claims left out. */
  stateOf(id: string, end = this.#log.length): MessageState | null {
    let state: MessageState | null = null
    for (const { fact } of this.#factsOf(id, end)) state = evolve(state, fact)
    return state
  }

  #factsOf(id: string, end = this.#log.length): ReadonlyArray<Landed> {
    const fence = new Fence()
    const facts: Array<Landed> = []
    for (const [offset, entry] of this.#log.slice(0, end).entries()) {
      if (entry.kind === 'opened') {
        fence.observe(offset, entry)
        continue
      }
      const { by, knew, said } = entry
      for (const one of said) {
        if (one.fact.messageId === id && !isVoid(one.fact, fence)) facts.push({ ...one, by, knew, offset })
      }
    }
    return facts
  }

  #knownOf(report: Report): KnownMessage | null {
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

  /** Everything works from now on and time passes, until nothing moves any more. */
  rest(): void {
    this.endZombie()
    this.#answering = 'accepts'
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

  /** Reports that nobody awaits any more: each message that was taken and given up on is delivered after all. */
  tellLate(): void {
    for (const which of [...this.#taken.keys()].keys()) this.tell(which, 'all parts delivered')
  }

  check(): void {
    for (const id of this.#accepted.keys()) this.#checkMessage(id)
    this.#checkOrder()
    const { positions, shard, fence } = this.#member
    assert.strictEqual(shard.openCount, 0, 'nothing is open')
    assert.strictEqual(shard.handovers, 0, 'nothing is under way')
    assert.strictEqual(shard.finishedCount, 0, 'and nothing is remembered')
    assert.deepStrictEqual(
      [this.#committed[0], this.#committed[1], this.#committed[3]],
      [this.#lanes[0]!.length, this.#lanes[1]!.length, this.#reports.length],
      'at rest the marks are at the ends',
    )
    assert.strictEqual(
      this.#committed[2],
      fence.newestOffset,
      'and the log is needed from the newest fence on',
    )
    assert.strictEqual(positions[2], this.#log.length)
  }

  #checkMessage(id: string): void {
    // What a reader of the log sees of it, status by status.
    let state: MessageState | null = null
    const seen: Array<string> = ['accepted']
    let sent: Landed | null = null
    let withIds = false
    let assumedAgain = false
    for (const written of this.#factsOf(id)) {
      const { fact } = written
      if (fact.type === 'MessageSent') {
        assumedAgain ||= sent !== null && fact.operatorIds.length === 0
        sent ??= written
      }
      state = evolve(state, fact)
      const now = state.reason === null ? state.status : `${state.status} ${state.reason}`
      if (seen.at(-1) === now) continue
      seen.push(now)
      // Whoever has not read another's answer yet knows no ids. And what a former owner assumes long afterwards may be all that
      // is left of a message behind the mark.
      withIds =
        !assumedAgain &&
        sent?.fact.type === 'MessageSent' &&
        sent.fact.operatorIds.length > 0 &&
        (sent.by === written.by || sent.offset < written.knew)
    }
    const story = seen.join(', ')
    for (const [i, status] of seen.slice(1).entries()) {
      assert.include(ALLOWED[seen[i]!] ?? [], status, `${id}: ${story}`)
    }
    const end = seen.at(-1)!
    const taken = this.#taken.get(id)
    assert.isTrue(state?.final === true, `${id} has come to its end: ${story}`)

    const facts = this.#factsOf(id)
    const claimed = facts.some(({ fact }) => fact.type === 'HandoverStarted')
    const firstEnd = facts.find(({ fact }) => FINAL.has(fact.type))?.fact
    if (firstEnd?.type === 'MessageExpired' && !claimed) {
      assert.strictEqual(firstEnd.reason, 'ttl_expired_before_submit', `${id} was never claimed: ${story}`)
    }

    // And it is true.
    if (seen.includes('sent')) {
      assert.isTrue(claimed, `${id} was never claimed, and is called sent: ${story}`)
    }
    if (end === 'expired ttl_expired_before_submit') {
      assert.isUndefined(taken, `${id} was handed over, and "a resend is safe" was said: ${story}`)
    }
    if (end === 'rejected operator_rejected') {
      assert.isUndefined(taken, `${id} was taken, and is called rejected: ${story}`)
    }
    if (TOLD.has(end)) {
      // Where the ids were in an answer that was lost, a report is matched by its recipient.
      const tellers = withIds
        ? [taken]
        : [...this.#taken.values()].filter(({ recipient }) => recipient === this.#accepted.get(id)!.recipient)
      assert.include(
        // Without ids one part stands for all.
        tellers.flatMap((teller) => [
          teller?.decided,
          ...(!withIds && (teller?.delivered.size ?? 0) > 0 ? ['delivered'] : []),
        ]),
        TOLD.get(end),
        `${id} is as its operator told: ${story}`,
      )
    }
    if (state?.seen === true) assert.strictEqual(end, 'delivered', `${id} was seen: ${story}`)
    const decided = taken?.decided ?? null
    // Late reports correct to these two. Without ids a report may not find its message; and of several parts, reports that came before
    // our deadline are forgotten with the message, so that the rest does not make it whole.
    const inPieces =
      taken !== undefined &&
      taken.ids.length > 1 &&
      decided === 'delivered' &&
      story.includes('dlr_timeout_local')
    if ((decided === 'delivered' || decided === 'undelivered') && withIds && !inPieces) {
      assert.strictEqual(TOLD.get(end), decided, `${id} was reported: ${story}`)
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
        const { recipient } = this.#accepted.get(id)!
        assert.isAbove(at, last.get(recipient) ?? -1, 'the order of a lane is kept for a recipient')
        last.set(recipient, at)
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
/** Source: specification, States and transitions; contract, Message. */
const ALLOWED: Readonly<Record<string, ReadonlyArray<string>>> = {
  accepted: ['sent', ...ENDS, 'expired ttl_expired_before_submit'],
  sent: [...ENDS, 'expired dlr_timeout_local'],
  'expired dlr_timeout_local': ['delivered', 'undelivered recipient_blocked'],
}
/** Ends that only an operator can tell. */
const TOLD: ReadonlyMap<string, Taken['decided']> = new Map([
  ['delivered', 'delivered'],
  ['undelivered recipient_blocked', 'undelivered'],
  ['rejected spam_filter_sender', 'rejected'],
  ['expired dlr_timeout', 'expired'],
])
