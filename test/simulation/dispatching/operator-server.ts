/**
 * A simulated SMS operator outside of all processes: it accepts, refuses or rejects messages, and
 * reports what becomes of them to any connected process, until one of them has stored the report.
 */
import type { InboundMessage, Operator, OperatorReport, Submission, SubmitOutcome } from '@hub/operator'
import { ReportSink } from '@hub/operator'
import { Effect, Exit, type Scope } from 'effect'
import type { CallFault } from '../world/faults.ts'
import type { Network } from '../world/network.ts'
import type { SimulatedProcess } from '../world/process.ts'
import { SeededRandom } from '../world/random.ts'
import type { World } from '../world/world.ts'

/** The name in facts and metrics. */
const NAME = 'smpp'
const SUBMIT_DEADLINE_MS = 5000
const SEND_AGAIN_MS = 1500
/** The hash of a recipient without messages. */
const STRANGER = 'f'.repeat(64)

/** A message that the operator has accepted. */
interface SubmittedMessage {
  readonly reference: string
  /** The number of parts of the whole message. */
  readonly parts: number
  /** One for each part that the operator has. */
  readonly operatorIds: ReadonlyArray<string>
  readonly by: string
  /** What it will report; `null` for nothing. */
  readonly outcome: 'delivered' | 'undelivered' | 'rejected' | 'expired' | null
  /** It has sent a read receipt, which proves the delivery of the whole message. */
  isSeen: boolean
  /** A report comes after the report deadline: as planned, or because no process stored it before. */
  isLate: boolean
  /** The parts of which it has sent a report. */
  readonly reported: Set<string>
  /** The number of its reports that a process has stored. */
  stored: number
}

/** An inbound message, which the operator sends until a process has acknowledged it. */
interface Inbound {
  readonly from: string
  readonly text: string
  isAcknowledged: boolean
}

/** What a connected process takes. */
interface Connection {
  readonly report: (report: OperatorReport, onStored: () => void) => void
  readonly inbound: (message: InboundMessage, onStored: () => void) => void
}

const LOSSY: ReadonlyArray<CallFault> = ['failBefore', 'failAfter', 'lost', 'slow', 'partial']
const REPEATING: ReadonlyArray<CallFault> = [...LOSSY, 'late', 'twice']

export class OperatorServer {
  readonly dedupes: boolean
  readonly reportsReference: boolean
  /** Each part is a request of its own, as over SMPP: it may have some parts of a message only. */
  readonly takesParts: boolean
  readonly submitted: Array<SubmittedMessage> = []
  /** By the operator's id. */
  readonly inbound = new Map<string, Inbound>()
  readonly #world: World
  readonly #network: Network
  readonly #random: SeededRandom
  readonly #connected = new Map<SimulatedProcess, Connection>()
  readonly #onWrite: (submission: Submission, by: SimulatedProcess) => void
  readonly #onTwice: (first: SubmittedMessage, by: string) => void
  readonly #lateReportsMs: readonly [number, number]
  readonly #refusals: number
  /** The references that it has rejected: it rejects their repetitions too. */
  readonly #rejected = new Set<string>()
  /** The references of submits whose answer was lost, or never arrived. */
  readonly #unknown = new Set<string>()
  /** Those whose answer did not arrive yet, by process. */
  readonly #unanswered = new Map<SimulatedProcess, Set<Submission>>()
  /** What only some operators do. */
  readonly #habits: {
    /** It numbers the messages of each recipient, so two recipients have the same ids. */
    readonly countsByRecipient: boolean
    readonly rejects: boolean
    readonly sendsReceipts: boolean
    /** It sends a report with the id of another recipient's message. */
    readonly mistakesRecipients: boolean
    /** It throttles before it looks for a repeated reference. */
    readonly throttlesRepeats: boolean
    /** Its connection sometimes breaks before its answer, and behind the first part of a message. */
    readonly cutsMessages: boolean
    /** Most of its reports come after some seconds. */
    readonly reportsSlowly: boolean
  }
  readonly #ofHabits: SeededRandom
  readonly #idsOf = new Map<string, number>()
  #ids = 0
  /** What it will send or will perhaps send again. */
  #planned = 0

  constructor(
    world: World,
    network: Network,
    events: {
      readonly onWrite: (submission: Submission, by: SimulatedProcess) => void
      readonly onTwice: (first: SubmittedMessage, by: string) => void
    },
    /**
     * How late some reports come: after the report deadline, and after the hub has forgotten the
     * message.
     */
    lateReportsMs: readonly [number, number],
  ) {
    this.#lateReportsMs = lateReportsMs
    this.#world = world
    this.#network = network
    this.#random = new SeededRandom(world.seed, 'operator')
    this.dedupes = this.#random.chance(0.4)
    this.reportsReference = this.#random.chance(0.5)
    this.takesParts = !this.dedupes && !this.reportsReference
    this.#refusals = this.#random.pick([0, 0, 0.1, 0.4])
    this.#ofHabits = new SeededRandom(world.seed, 'habits of the operator')
    const has = (share: number) => this.#ofHabits.chance(share)
    this.#habits = {
      countsByRecipient: has(0.3),
      rejects: has(0.4),
      sendsReceipts: has(0.4),
      mistakesRecipients: has(0.3),
      throttlesRepeats: has(0.3),
      cutsMessages: has(0.3),
      reportsSlowly: has(0.3),
    }
    this.#onWrite = events.onWrite
    this.#onTwice = events.onTwice
  }

  /** Whether the hub cannot know if the operator has a message: an answer was lost, or its process ended. */
  hasUnknown(reference: string): boolean {
    const isUnanswered = [...this.#unanswered.values()].some((all) =>
      [...all].some((one) => one.reference === reference),
    )
    return this.#unknown.has(reference) || isUnanswered
  }

  /** Whether it has nothing more to send. */
  get isQuiet(): boolean {
    return this.#planned === 0
  }

  /** The submits of a process whose answers did not arrive yet. */
  unansweredOf(process: SimulatedProcess): ReadonlySet<Submission> {
    return this.#unanswered.get(process) ?? new Set()
  }

  /** The adapter in a process. */
  adapterOf(process: SimulatedProcess): Effect.Effect<Operator, never, ReportSink | Scope.Scope> {
    return Effect.gen({ self: this }, function* () {
      const sink = yield* ReportSink
      const context = yield* Effect.context<never>()
      const run = Effect.runForkWith(context)
      const store = (effect: Effect.Effect<void, unknown>, onStored: () => void) =>
        run(effect).addObserver((exit) => {
          if (Exit.isSuccess(exit)) onStored()
        })
      this.#connected.set(process, {
        report: (report, onStored) => store(sink.store([report]), onStored),
        inbound: (message, onStored) => store(sink.storeInbound([message]), onStored),
      })
      process.onEnd(() => this.#connected.delete(process))
      yield* Effect.addFinalizer(() => Effect.sync(() => this.#connected.delete(process)))
      return {
        name: NAME,
        capabilities: { dedupesByReference: this.dedupes, window: 1 + this.#random.below(20) },
        resume: () => Effect.void,
        submit: (batch, mayWrite) => this.#submit(process, batch, mayWrite),
      }
    })
  }

  #submit(
    process: SimulatedProcess,
    batch: ReadonlyArray<Submission>,
    mayWrite: () => boolean,
  ): Effect.Effect<ReadonlyArray<SubmitOutcome>> {
    return Effect.callback((resume) => {
      const written: Array<Submission> = []
      const unanswered = this.#unanswered.get(process) ?? new Set()
      this.#unanswered.set(process, unanswered)
      for (const submission of batch) {
        if (!mayWrite()) break
        this.#onWrite(submission, process)
        written.push(submission)
        unanswered.add(submission)
      }
      // A request that arrives twice has one outcome, also if it is a refusal.
      let outcomes: ReadonlyArray<SubmitOutcome> | null = null
      const mayCut =
        this.#habits.cutsMessages &&
        (this.takesParts || !this.#habits.throttlesRepeats) &&
        written.every(({ reference }) => this.submitted.every((known) => known.reference !== reference))
      const isCut = mayCut && this.#ofHabits.chance(0.3)
      const partsOf = ({ parts }: Submission) => (this.takesParts ? parts : 1)
      const notWritten = batch.slice(written.length).map((): SubmitOutcome => ({ type: 'notWritten' }))
      if (written.length === 0) return resume(Effect.succeed(notWritten))
      this.#network.request<ReadonlyArray<SubmitOutcome>>(process, 'operator', {
        name: 'submit',
        describe: () => written.map(({ reference }) => reference).join(', '),
        timeoutMs: SUBMIT_DEADLINE_MS,
        parts: written.reduce((sum, one) => sum + partsOf(one), 0),
        faults: this.dedupes ? REPEATING : LOSSY,
        serve: (answer, isIncluded) => {
          let part = 0
          outcomes ??= written.flatMap((one) => {
            const received = Array.from(
              { length: partsOf(one) },
              (_, i) => isIncluded(part++) && !(isCut && i > 0),
            ).filter(Boolean)
            if (received.length === 0) return []
            return [this.#accept(one, process.name, this.takesParts ? received.length : one.parts)]
          })
          if (!isCut) answer(outcomes)
        },
        onAnswer: (answered) => {
          for (const submission of written) unanswered.delete(submission)
          resume(Effect.succeed([...answered, ...notWritten]))
        },
        onFailure: (_, isExecuted) => {
          for (const submission of written) unanswered.delete(submission)
          if (isExecuted) for (const { reference } of written) this.#unknown.add(reference)
          resume(
            Effect.succeed([
              ...written.map((): SubmitOutcome =>
                isExecuted ? { type: 'unknown' } : { type: 'refused', retryAfterMs: 500, submitted: false },
              ),
              ...notWritten,
            ]),
          )
        },
      })
    })
  }

  /** `received`: the number of parts that have arrived. */
  #accept({ parts, recipient, reference }: Submission, by: string, received: number): SubmitOutcome {
    const known = this.submitted.find((one) => one.reference === reference)
    if (known !== undefined) {
      if (this.dedupes && this.#habits.throttlesRepeats && this.#ofHabits.chance(0.8))
        return { type: 'refused', retryAfterMs: 1000, submitted: true, throttledParts: parts }
      if (this.dedupes) return { type: 'accepted', operatorIds: known.operatorIds }
      this.#onTwice(known, by)
    }
    const rejected: SubmitOutcome = { type: 'rejected', reason: 'spam_filter_content' }
    if (this.#rejected.has(reference)) return rejected
    if (known === undefined && this.#random.chance(this.#refusals)) {
      if (!this.#random.chance(0.2)) {
        return { type: 'refused', retryAfterMs: this.#random.between(200, 3000), submitted: true }
      }
      if (this.dedupes) this.#rejected.add(reference)
      return rejected
    }
    const operatorIds = Array.from({ length: received }, () => this.#newId(recipient))
    const planned = this.#random.pick([
      'delivered',
      'delivered',
      'delivered',
      'undelivered',
      'expired',
      null,
    ] as const)
    const { rejects, sendsReceipts } = this.#habits
    const isRejected = rejects && planned === 'undelivered' && this.#ofHabits.chance(0.5)
    const message: SubmittedMessage = {
      reference,
      parts,
      operatorIds,
      by,
      outcome: isRejected ? 'rejected' : planned,
      isSeen: false,
      isLate: this.#random.chance(0.1),
      reported: new Set(),
      stored: 0,
    }
    this.submitted.push(message)
    this.#world.note(
      'operator',
      () =>
        `accepts ${received} of ${parts} parts of ${reference} of ${by}; it will be ${message.outcome ?? 'silent'}`,
    )
    this.#report(message, recipient)
    if (sendsReceipts && planned === 'delivered' && this.#ofHabits.chance(0.3))
      this.#sendReceipt(message, recipient)
    return { type: 'accepted', operatorIds }
  }

  #newId(recipient: string): string {
    if (!this.#habits.countsByRecipient) return `op-${this.#ids++}`
    const number = this.#idsOf.get(recipient) ?? 0
    this.#idsOf.set(recipient, number + 1)
    return `op-${number}`
  }

  #report(message: SubmittedMessage, recipient: string): void {
    const { operatorIds, outcome, reference } = message
    if (outcome === null) return
    const acceptedAt = this.#world.now()
    if (this.#habits.mistakesRecipients && this.#ofHabits.chance(0.3)) {
      // Nobody has a message with this id and this recipient.
      const mistaken = {
        ...this.#reportOn(message, operatorIds[0]!, STRANGER, 'undelivered'),
        reference: null,
      }
      this.#plan(this.#ofHabits.between(0, 2000), () =>
        this.#sendUntilStored(
          (connection, stored) => connection.report(mistaken, stored),
          () => {},
        ),
      )
    }
    for (const operatorId of operatorIds) {
      const delay = message.isLate
        ? this.#random.between(...this.#lateReportsMs)
        : this.#random.chance(this.#habits.reportsSlowly ? 0.2 : 0.8)
          ? this.#random.between(0, 2000)
          : this.#random.between(2000, 20_000)
      const report = () => this.#reportOn(message, operatorId, recipient, outcome)
      const onStored = () => {
        message.stored++
        if (this.#world.now() - acceptedAt >= this.#lateReportsMs[0]) message.isLate = true
        this.#world.note('operator', () => `has reported ${operatorId} of ${reference} as ${outcome}`)
      }
      this.#plan(delay, () => {
        message.reported.add(operatorId)
        this.#sendUntilStored((connection, stored) => connection.report(report(), stored), onStored)
      })
    }
  }

  #plan(ms: number, act: () => void): void {
    this.#planned++
    this.#world.after(ms, () => {
      this.#planned--
      act()
    })
  }

  #reportOn(
    { reference }: SubmittedMessage,
    operatorId: string,
    recipient: string,
    outcome: OperatorReport['outcome'],
  ): OperatorReport {
    return {
      operator: NAME,
      operatorId,
      reference: this.reportsReference ? reference : null,
      recipient,
      to: null,
      outcome,
      reason:
        outcome === 'undelivered'
          ? 'recipient_unreachable'
          : outcome === 'rejected'
            ? 'spam_filter_sender'
            : null,
      at: this.#world.now(),
      raw: null,
    }
  }

  /** A read receipt may overtake the delivery report. */
  #sendReceipt(message: SubmittedMessage, recipient: string): void {
    const [operatorId] = message.operatorIds
    this.#plan(this.#ofHabits.between(0, 8000), () => {
      message.isSeen = true
      this.#sendUntilStored(
        (connection, stored) =>
          connection.report(this.#reportOn(message, operatorId!, recipient, 'seen'), stored),
        () => {},
      )
    })
  }

  /** Sends an inbound message of a number. */
  sendInbound(from: string, text: string): void {
    const operatorId = `in-${this.#ids++}`
    const message: Inbound = { from, text, isAcknowledged: false }
    this.inbound.set(operatorId, message)
    const at = this.#world.now()
    this.#world.note('operator', () => `receives ${text} as ${operatorId}`)
    this.#sendUntilStored(
      (connection, stored) =>
        connection.inbound(
          { operator: NAME, operatorId, from, serviceAddress: 'HUB', text, at, raw: null },
          stored,
        ),
      () => {
        message.isAcknowledged = true
      },
    )
  }

  /** Sends something to any connected process, again until it is stored and sometimes afterwards. */
  #sendUntilStored(
    send: (connection: Connection, onStored: () => void) => void,
    onFirstStored: () => void,
  ): void {
    let isStored = false
    const attempt = () => {
      const processes = [...this.#connected.keys()]
      if (processes.length > 0) {
        const process = this.#random.pick(processes)
        process.post(() => {
          const connection = this.#connected.get(process)
          if (connection === undefined) return
          send(connection, () => {
            if (!isStored) onFirstStored()
            isStored = true
          })
        })
      }
      // The acknowledgement may be lost.
      this.#planned++
      this.#world.afterQuiet(SEND_AGAIN_MS, () => {
        this.#planned--
        if (!isStored || this.#random.chance(0.1)) attempt()
      })
    }
    attempt()
  }
}
