/**
 * A model of everything around a shard (lanes, log, reports, committed marks, an operator that counts), driven through random
 * interleavings with crashes, lost acknowledgements, lost answers, repeats and late produces. What must hold is
 * checked at every submission, and at the end, when everything has come to rest.
 */
import { Fence } from '@hub/actor'
import { epochOf, type LogFact, type MessageAccepted, type MessageState } from '@hub/domain'
import { describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { assert } from 'vitest'
import { MessageShard, type World } from './message-shard.ts'
import type { Message, Report } from './message.ts'

const OTP = 0
const SERVICE = 1
/** Each mode has an operator of its own, and so a share of each lane's buffer. */
const OPERATORS = { test: 'op', live: 'live-op' } as const

interface Said {
  readonly recipient: string
  readonly fact: LogFact
}

type LogEntry =
  | { readonly kind: 'facts'; readonly said: ReadonlyArray<Said> }
  | { readonly kind: 'opened'; readonly epoch: number; readonly member: string }

interface PendingAppend {
  readonly life: number
  readonly said: ReadonlyArray<Said>
  readonly acknowledge: (offset: number) => void
}

interface PendingSubmit {
  readonly life: number
  readonly message: Message
}

const SETTLED = new Set([
  'MessageSent',
  'OpenMessageCarried',
  'MessageDelivered',
  'MessageUndelivered',
  'MessageRejected',
  'MessageExpired',
])
const FINAL = new Set(['MessageDelivered', 'MessageUndelivered', 'MessageRejected', 'MessageExpired'])

class Model {
  now = 1_000_000
  readonly lanes: Array<Array<{ readonly accepted: MessageAccepted; readonly appendedAt: number }>> = [[], []]
  readonly log: Array<LogEntry> = []
  readonly reports: Array<Omit<Report, 'offset'>> = []
  /** lane 0, lane 1, log, reports: the next offset to read. */
  committed = [0, 0, 0, 0]
  positions = [0, 0, 0, 0]
  life = 0
  shard!: MessageShard
  fence!: Fence
  logStart = 0
  epoch = 0
  appends: Array<PendingAppend> = []
  /** Produces that were given up by a life that is gone, and may land late all the same. */
  strays: Array<ReadonlyArray<Said>> = []
  /** Offsets of strays in the log. */
  readonly late = new Set<number>()
  submits: Array<PendingSubmit> = []
  readonly accepted: Array<MessageAccepted> = []
  /** Per reference: what the operator has done. */
  readonly operator = new Map<
    string,
    { taken: boolean; submissions: number; refusals: number; reported: boolean }
  >()
  /** References in the order of their first submission. */
  readonly order: Array<string> = []
  readonly dedupes: boolean

  constructor(dedupes: boolean) {
    this.dedupes = dedupes
    this.start()
  }

  // ---- a member's life

  start(): void {
    this.life++
    const { life } = this
    const world: World = {
      now: () => this.now,
      append: (fact, { key: recipient }, acknowledge) => {
        if (life === this.life) this.appends.push({ life, said: [{ fact, recipient }], acknowledge })
      },
      carry: (open, _at, acknowledge) => {
        const said = open.map(({ fact, message }) => ({ fact, recipient: message.key }))
        if (life === this.life) this.appends.push({ life, said, acknowledge })
      },
      submit: (message) => this.leave(life, message),
      resume: () => {},
      operatorFor: (mode) => OPERATORS[mode],
      dedupes: () => this.dedupes,
      reportDeadline: (_state: MessageState, sentAt) => sentAt + 300_000,
      happened: () => {},
    }
    this.shard = new MessageShard(world, { buffer: 3, open: 1000, finished: 1000, carryBehind: 5 })
    this.fence = new Fence()
    this.positions = [...this.committed]
    this.logStart = this.committed[2]!
    this.readLog()
    this.epoch = this.fence.epoch + 1
    this.carryFence()
    this.readLog()
    this.shard.opened({
      epoch: this.epoch,
      now: this.now,
      laneEnds: this.lanes.map((lane) => lane.length),
      logPosition: this.positions[2]!,
    })
  }

  crash(): void {
    for (const { said } of this.appends) this.strays.push(said)
    this.appends = []
    this.submits = []
    this.start()
  }

  // ---- Kafka

  produce(lane: number, recipient: number, lifetime: number): void {
    const messageId = `msg_${this.accepted.length}`
    const accepted: MessageAccepted = {
      type: 'MessageAccepted',
      messageId,
      at: this.now,
      account: 'acc',
      mode: recipient % 2 === 0 ? 'test' : 'live',
      class: lane === OTP ? 'otp' : 'service',
      recipient: `r${recipient}`,
      template: 't',
      sender: 's',
      clientRef: null,
      batch: null,
      parts: 1,
      price: { amount: '0.00', currency: 'RUB' },
      variables: [],
      expiresAt: this.now + lifetime,
      sealingKey: 'k',
      sealed: new Uint8Array(),
      republished: false,
    }
    this.accepted.push(accepted)
    this.lanes[lane]!.push({ accepted, appendedAt: this.now })
  }

  repeat(which: number): void {
    const accepted = this.accepted[which % Math.max(1, this.accepted.length)]
    if (accepted === undefined) return
    const lane = accepted.class === 'otp' ? OTP : SERVICE
    // Within a minute a repeat may look like a first; later it is flagged.
    const republished = this.now - accepted.at > 60_000
    this.lanes[lane]!.push({ accepted: { ...accepted, republished }, appendedAt: this.now })
  }

  /** Lands what is on its way. When the answer is lost, or the produce is overtaken by its repetition, it comes again. */
  land(count: number, how: 'acknowledged' | 'answer lost' | 'overtaken'): void {
    for (const pending of this.appends.slice(0, count)) {
      const { said } = pending
      if (how === 'overtaken') {
        this.strays.push(said)
        continue
      }
      this.log.push({ kind: 'facts', said })
      if (how === 'answer lost') continue
      this.appends.splice(this.appends.indexOf(pending), 1)
      pending.acknowledge(this.log.length - 1)
    }
  }

  /** The fence is written again, so that the log's mark can pass the old one. */
  carryFence(): void {
    this.log.push({ kind: 'opened', epoch: this.epoch, member: `m${this.life}` })
  }

  landStray(): void {
    const stray = this.strays.shift()
    if (stray === undefined) return
    this.late.add(this.log.length)
    this.log.push({ kind: 'facts', said: stray })
  }

  readLog(): void {
    for (; this.positions[2]! < this.log.length; this.positions[2]!++) {
      const offset = this.positions[2]!
      const entry = this.log[offset]!
      if (entry.kind === 'opened') this.fence.observe(offset, entry)
      else if (!this.shard.isOwn(offset)) {
        for (const { fact, recipient } of entry.said) this.shard.onFact(offset, recipient, fact, this.fence)
      }
    }
  }

  readLane(lane: number, count: number): void {
    for (let i = 0; i < count; i++) {
      this.turn(lane)
      if (this.shard.isFull(lane)) return
      const offset = this.positions[lane]!
      const record = this.lanes[lane]![offset]
      if (record === undefined) return
      this.positions[lane] = offset + 1
      this.shard.onAccepted(lane, offset, record.appendedAt, record.accepted)
    }
    this.turn(lane)
  }

  /** A lane is read again where messages were passed over for want of room. */
  turn(lane: number): void {
    this.positions[lane] = this.shard.turn(lane, this.positions[lane]!) ?? this.positions[lane]!
  }

  readReports(count: number): void {
    for (let i = 0; i < count; i++) {
      const offset = this.positions[3]!
      const report = this.reports[offset]
      if (report === undefined) return
      this.positions[3] = offset + 1
      this.shard.onReport({ ...report, offset })
    }
  }

  /** `torn`: the request reaches the broker for the log only (1) or for the rest only (2). */
  commit(torn: number): void {
    const needed = this.shard.needed()
    const mark = (lowest: number | null, i: number) =>
      lowest === null ? this.positions[i]! : Math.min(lowest, this.positions[i]!)
    const log = this.fence.lastAtOrBefore(mark(needed.log, 2)) ?? this.logStart
    const lanes = needed.lanes.map((lowest, lane) => mark(lowest, lane))
    const reports = mark(needed.reports, 3)
    if (torn === 1) {
      this.committed = [this.committed[0]!, this.committed[1]!, log, this.committed[3]!]
      this.crash()
      return
    }
    if (torn === 2) {
      this.committed = [lanes[0]!, lanes[1]!, this.committed[2]!, reports]
      this.crash()
      return
    }
    this.committed = [lanes[0]!, lanes[1]!, log, reports]
    this.shard.committed(lanes, this.positions[2]!, this.now)
  }

  // ---- handing over

  take(count: number): void {
    for (const lane of [OTP, SERVICE]) {
      for (let i = 0; i < count; i++) {
        const operator = i % 2 === 0 ? OPERATORS.test : OPERATORS.live
        const message = this.shard.take(lane, operator) ?? this.shard.take(lane, OPERATORS.live)
        if (message === null) break
        this.shard.claim(message)
      }
    }
  }

  /** 0 accepted, 1 refused, 2 rejected, 3 taken and the answer lost, 4 lost on the way, 5 lease gone. */
  answer(outcome: number): void {
    const pending = this.submits.shift()
    if (pending === undefined || pending.life !== this.life) return
    const { message } = pending
    const done = this.operator.get(message.id) ?? {
      taken: false,
      submissions: 0,
      refusals: 0,
      reported: false,
    }
    this.operator.set(message.id, done)
    if (outcome === 5) {
      this.shard.answered(message, { type: 'notWritten' }, 0)
      return
    }
    if (!this.dedupes) {
      assert.isAtMost(done.submissions, done.refusals, 'an operator that does not dedupe gets a message once')
    }
    if (done.submissions === 0) this.order.push(message.id)
    done.submissions++
    const deadline = this.now + 300_000
    const accepted = () =>
      this.shard.answered(message, { type: 'accepted', operatorIds: [`o-${message.id}`] }, deadline)
    if (done.taken && this.dedupes) {
      accepted()
      return
    }
    switch (outcome) {
      case 1:
        done.refusals++
        this.shard.answered(message, { type: 'refused', retryAfterMs: 5000 }, 0)
        return
      case 2:
        done.refusals++
        this.shard.answered(message, { type: 'rejected', reason: 'operator_rejected' }, 0)
        return
      case 3:
        done.taken = true
        this.shard.answered(message, { type: 'unknown' }, 0)
        return
      case 4:
        this.shard.answered(message, { type: 'unknown' }, 0)
        return
      default:
        done.taken = true
        accepted()
    }
  }

  /** The claim is acknowledged: the message leaves now. */
  leave(life: number, message: Message): void {
    const fence = new Fence()
    const known = this.log.find((entry, offset) => {
      if (entry.kind === 'opened') {
        fence.observe(offset, entry)
        return false
      }
      return entry.said.some(({ fact }) => {
        const epoch = epochOf(fact)
        return (
          fact.messageId === message.id &&
          SETTLED.has(fact.type) &&
          (epoch === null || !fence.isVoid(epoch)) &&
          // What a former life still had on its way, and has not been read, nobody can know.
          !(this.late.has(offset) && offset >= this.positions[2]!)
        )
      })
    })
    assert.isUndefined(known, 'nothing is handed over whose outcome is in the log')
    const same = this.submits.filter((other) => other.message.key === message.key && other.life === life)
    assert.lengthOf(same, 0, 'one hand-over at a time for a recipient')
    this.submits.push({ life, message })
  }

  report(which: number, outcome: number): void {
    const taken = [...this.operator].filter(([, done]) => done.taken && !done.reported)
    const chosen = taken[which % Math.max(1, taken.length)]
    if (chosen === undefined) return
    const [id, done] = chosen
    done.reported = true
    const accepted = this.accepted.find((message) => message.messageId === id)!
    this.reports.push({
      operator: OPERATORS[accepted.mode],
      operatorId: `o-${id}`,
      reference: id,
      recipient: accepted.recipient,
      outcome:
        outcome % 2 === 0 ? { status: 'delivered' } : { status: 'undelivered', reason: 'recipient_blocked' },
    })
  }

  // ---- time, and what is asked of the read model

  advance(ms: number): void {
    this.now += ms
    this.shard.tick(this.now)
  }

  lookUp(): void {
    for (const message of this.shard.messagesToLookUp(100)) {
      const settled = this.facts().some(
        ({ messageId, type }) => messageId === message.id && SETTLED.has(type),
      )
      this.shard.lookedUp(message, settled)
    }
    for (const report of this.shard.reportsToLookUp(100)) this.shard.reportLookedUp(report, null)
  }

  /** Everything works from now on: what is still open comes to its end. */
  rest(): void {
    for (let round = 0; round < 400; round++) {
      this.landStray()
      this.readLog()
      this.readLane(OTP, 50)
      this.readLane(SERVICE, 50)
      this.lookUp()
      this.take(50)
      while (this.appends.length > 0) this.land(50, 'acknowledged')
      while (this.submits.length > 0) this.answer(0)
      while (this.appends.length > 0) this.land(50, 'acknowledged')
      this.report(0, 0)
      this.readReports(50)
      while (this.appends.length > 0) this.land(50, 'acknowledged')
      this.readLog()
      this.commit(0)
      this.advance(10_000)
    }
  }

  facts(): ReadonlyArray<LogFact> {
    return this.log.flatMap((entry) => (entry.kind === 'facts' ? entry.said.map(({ fact }) => fact) : []))
  }

  /** Messages with a claim that no fence has made void. */
  claims(): ReadonlySet<string> {
    const fence = new Fence()
    const claimed = new Set<string>()
    for (const [offset, entry] of this.log.entries()) {
      if (entry.kind === 'opened') {
        fence.observe(offset, entry)
        continue
      }
      for (const { fact } of entry.said) {
        if (fact.type === 'HandoverStarted' && !fence.isVoid(fact.epoch)) claimed.add(fact.messageId)
      }
    }
    return claimed
  }

  checkEnd(): void {
    for (const { messageId } of this.accepted) {
      const finals = this.facts().filter((fact) => fact.messageId === messageId && FINAL.has(fact.type))
      assert.isAbove(finals.length, 0, `${messageId} has come to an end`)
      const claimed = this.claims().has(messageId)
      const [first] = finals
      if (first?.type === 'MessageExpired' && !claimed) {
        assert.strictEqual(
          first.reason,
          'ttl_expired_before_submit',
          'a message that was never validly claimed was not sent',
        )
      }
    }
    for (const lane of this.lanes) {
      const place = new Map<string, number>()
      for (const [offset, { accepted }] of lane.entries()) {
        if (!place.has(accepted.messageId)) place.set(accepted.messageId, offset)
      }
      const last = new Map<string, number>()
      for (const id of this.order) {
        const at = place.get(id)
        if (at === undefined) continue
        const { recipient } = this.accepted.find((message) => message.messageId === id)!
        assert.isAbove(at, last.get(recipient) ?? -1, 'lane order is kept for a recipient')
        last.set(recipient, at)
      }
    }
    assert.strictEqual(this.shard.openCount, 0)
    assert.deepStrictEqual(
      [this.committed[0], this.committed[1], this.committed[3]],
      [this.lanes[0]!.length, this.lanes[1]!.length, this.reports.length],
      'at rest the marks are at the ends',
    )
    assert.strictEqual(
      this.committed[2],
      this.fence.newestOffset,
      'at rest the log is needed from the newest fence on',
    )
    assert.strictEqual(this.shard.finishedCount, 0, 'and nothing is remembered')
  }
}

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('produce' as const), a: fc.nat(1), b: fc.nat(3), c: fc.nat(3) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('repeat' as const), a: fc.nat(50) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('readLane' as const), a: fc.nat(1), b: fc.nat(5) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('take' as const), a: fc.nat(4) }) },
  { weight: 7, arbitrary: fc.record({ do: fc.constant('land' as const), a: fc.nat(6), b: fc.nat(5) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('answer' as const), a: fc.nat(9) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('report' as const), a: fc.nat(20), b: fc.nat(3) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('readReports' as const), a: fc.nat(4) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('readLog' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      a: fc.constantFrom(1, 100, 1500, 6000, 70_000, 130_000),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('lookUp' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('commit' as const), a: fc.nat(8) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('stray' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('carryFence' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const) }) },
)
type Step = typeof step extends fc.Arbitrary<infer A> ? A : never

const LIFETIMES = [8000, 60_000, 300_000, 900_000]

const perform = (model: Model, next: Step): void => {
  switch (next.do) {
    case 'produce':
      return model.produce(next.a, next.b, LIFETIMES[next.c]!)
    case 'repeat':
      return model.repeat(next.a)
    case 'readLane':
      return model.readLane(next.a, next.b)
    case 'take':
      return model.take(next.a)
    case 'land':
      return model.land(next.a, next.b > 1 ? 'acknowledged' : next.b === 0 ? 'answer lost' : 'overtaken')
    case 'answer':
      return model.answer(next.a)
    case 'report':
      return model.report(next.a, next.b)
    case 'readReports':
      return model.readReports(next.a)
    case 'readLog':
      return model.readLog()
    case 'advance':
      return model.advance(next.a)
    case 'lookUp':
      return model.lookUp()
    case 'commit':
      return model.commit(next.a)
    case 'carryFence':
      return model.carryFence()
    case 'stray':
      return model.landStray()
    case 'crash':
      return model.crash()
  }
}

const run = (dedupes: boolean) => (steps: ReadonlyArray<Step>) => {
  const model = new Model(dedupes)
  for (const next of steps) perform(model, next)
  model.rest()
  model.checkEnd()
}

describe('a shard over crashes, lost answers and repeats', () => {
  // The same ones every time, so that a change is judged by itself. Others by hand: HUB_MODEL_RUNS=20000 HUB_MODEL_SEED=2.
  const RUNS = Number(process.env['HUB_MODEL_RUNS'] ?? 150)
  const SEED = Number(process.env['HUB_MODEL_SEED'] ?? 1)

  it('loses nothing and hands nothing over whose outcome is known, with an operator that dedupes', () => {
    fc.assert(fc.property(fc.array(step, { maxLength: 150, size: 'max' }), run(true)), {
      numRuns: RUNS,
      seed: SEED,
    })
  })

  it('hands a message over once to an operator that does not dedupe', () => {
    fc.assert(fc.property(fc.array(step, { maxLength: 150, size: 'max' }), run(false)), {
      numRuns: RUNS,
      seed: SEED,
    })
  })
})
