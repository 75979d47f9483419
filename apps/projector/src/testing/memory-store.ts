/**
 * The projection's store in memory: the adapter of `store/projection-store.port.ts` for simulated
 * time. It passes `projection-store.contract.ts`, like the store in PostgreSQL.
 *
 * A transaction has the steps of the PostgreSQL adapter. It locks the same rows in each step, and
 * its writes become visible with its commit. So other transactions can run between its steps.
 */
import {
  addMoney,
  type MessageAccepted,
  minorUnits,
  type Mode,
  type Money,
  moneyOf,
  zeroMoney,
} from '@hub/domain'
import type { BatchSealed, MessageOutcome, OutgoingRecord } from '@hub/kafka'
import type { OutboxStatus, OutboxStoreShape, RelayedRows } from '@hub/outbox'
import { nextRows, statusOf } from '@hub/outbox/testing'
import type { CommandSpendPeriods, ReadEvents } from '@hub/store'
import { Effect } from 'effect'
import type {
  BatchDelta,
  DailyDelta,
  HourlyDelta,
  RangeDelta,
  StatsCounts,
} from '../messages/aggregate-deltas.ts'
import { type Charge, derivedColumns, type JournalEntry, type OperatorId } from '../messages/fold.ts'
import type { EncryptedPersonalData } from '../messages/personal-data.ts'
import type { MessageRow } from '../messages/row.ts'
import {
  type BatchTransaction,
  type BatchWrites,
  type Checkpoint,
  type ClosedBatch,
  type EventRecording,
  type EventSourceName,
  type JournalHead,
  type JournalKey,
  type JournalWrites,
  type LockedJournals,
  partitionKey,
  type ProjectionStoreShape,
  type Recorded,
  type StoredState,
  type TakenEntries,
  type TopicPartition,
} from '../store/projection-store.port.ts'

/** A row of `read.batches`. */
interface BatchRow extends Omit<BatchDelta, 'members' | 'final'> {
  readonly members: number
  readonly final: number
  readonly seal: BatchSealed | null
  readonly closed: boolean
}

/** Counts of a row of statistics; the price in minor units. */
type Counts = Omit<StatsCounts, 'price'> & { readonly units: bigint }

interface Journal {
  readonly lastAt: number
  readonly events: ReadonlyArray<ReadEvents.JournalEvent>
}

interface SpendPeriod {
  readonly spent: Money
  readonly told: boolean
}

interface SpendLimit {
  readonly limit: Money
  readonly softThresholdPercent: number
}

interface OutboxRow {
  readonly records: ReadonlyArray<OutgoingRecord>
  readonly createdAt: number
}

/** The tables. Each has one map, by its key. */
const emptyTables = () => ({
  checkpoints: new Map<string, Checkpoint>(),
  messages: new Map<string, MessageRow>(),
  facts: new Map<string, MessageAccepted>(),
  operatorIds: new Map<string, OperatorId>(),
  personalData: new Map<string, EncryptedPersonalData>(),
  batches: new Map<string, BatchRow>(),
  dailyStats: new Map<string, Counts>(),
  hourlyStats: new Map<string, Counts>(),
  rangeStats: new Map<string, Counts>(),
  charges: new Map<string, Charge>(),
  spendPeriods: new Map<string, SpendPeriod>(),
  journals: new Map<string, Journal>(),
  outbox: new Map<string, OutboxRow>(),
  /** The ids of messages, by the number of the row. */
  outcomesDue: new Map<string, ReadonlyArray<string>>(),
})
export type MemoryTables = ReturnType<typeof emptyTables>
type TableName = keyof MemoryTables

export const journalName = ({ account, mode }: JournalKey): string => `${account}:${mode}`
const periodName = ({ account, period }: { readonly account: string; readonly period: string }): string =>
  `${account} ${period}`
const chargeName = ({ kind, messageId }: Charge): string => `${messageId} ${kind}`
const dailyName = ({ account, class: messageClass, currency, day, mode, template }: DailyDelta): string =>
  [day, account, mode, messageClass, template, currency].join(' ')
const hourlyName = ({ account, currency, hour, mode, reason }: HourlyDelta): string =>
  [hour, account, mode, reason ?? '', currency].join(' ')
const rangeName = (delta: RangeDelta): string => {
  const { account, class: messageClass, currency, hour, mode, numberRange, reason } = delta
  return [hour, account, mode, messageClass, numberRange, reason ?? '', currency].join(' ')
}

/** Locks of rows. A transaction gets all locks of a step at once, or waits. */
class Locks {
  readonly #owners = new Map<string, object>()
  #waiting: Array<{
    readonly owner: object
    readonly keys: ReadonlyArray<string>
    readonly act: () => void
  }> = []

  acquire(owner: object, keys: ReadonlyArray<string>, act: () => void): void {
    if (keys.some((key) => (this.#owners.get(key) ?? owner) !== owner)) {
      this.#waiting.push({ owner, keys, act })
      return
    }
    for (const key of keys) this.#owners.set(key, owner)
    act()
  }

  isHeld(key: string): boolean {
    return this.#owners.has(key)
  }

  release(owner: object): void {
    for (const [key, by] of this.#owners) if (by === owner) this.#owners.delete(key)
    const waiting = this.#waiting.filter((one) => one.owner !== owner)
    this.#waiting = []
    for (const { act, keys, owner: by } of waiting) this.acquire(by, keys, act)
  }
}

const add = (counts: Counts | undefined, by: StatsCounts, currency: string): Counts => ({
  accepted: (counts?.accepted ?? 0) + by.accepted,
  sent: (counts?.sent ?? 0) + by.sent,
  delivered: (counts?.delivered ?? 0) + by.delivered,
  undelivered: (counts?.undelivered ?? 0) + by.undelivered,
  rejected: (counts?.rejected ?? 0) + by.rejected,
  expired: (counts?.expired ?? 0) + by.expired,
  parts: (counts?.parts ?? 0) + by.parts,
  units: (counts?.units ?? 0n) + minorUnits({ amount: by.price, currency }),
})

/**
 * A transaction. Call one step after the other; each answers when it has its locks. A transaction
 * that was rolled back answers no more.
 */
export class MemoryTransaction {
  readonly #store: MemoryStore
  readonly #written = emptyTables()
  readonly #deleted: Array<readonly [TableName, string]> = []
  readonly #onCommit: Array<() => void> = []
  #decided: BatchWrites | null = null
  #isOver = false

  constructor(store: MemoryStore) {
    this.#store = store
  }

  get isOver(): boolean {
    return this.#isOver
  }

  #lock(keys: ReadonlyArray<string>, act: () => void): void {
    if (this.#isOver) return
    this.#store.locks.acquire(this, keys, act)
  }

  #get<Name extends TableName>(table: Name, key: string): ReturnType<MemoryTables[Name]['get']> {
    const written = this.#written[table].get(key) ?? this.#store.tables[table].get(key)
    return written as ReturnType<MemoryTables[Name]['get']>
  }

  // ---- a transaction batch

  /** Locks the checkpoints, reads the rows of the messages, and decides. */
  lockAndRead(
    { decide, messageIds, partitions }: BatchTransaction,
    answer: (decided: ReturnType<BatchTransaction['decide']>) => void,
  ): void {
    const names = partitions.map(partitionKey)
    this.#lock(
      names.map((name) => `checkpoint ${name}`),
      () => {
        const decided = decide(this.#store.stored(names, messageIds))
        if (typeof decided !== 'string') this.#decided = decided
        answer(decided)
      },
    )
  }

  /** Writes the rows, and locks the journal heads. */
  write(answer: (locked: LockedJournals | null) => void): void {
    const writes = this.#decided
    if (writes === null) return
    const { candidates, changes, periods, recording, seals } = writes
    const reversals = changes.charges.filter(({ kind }) => kind === 'reversal')
    const keys = [
      ...[...changes.accepted.map(({ row }) => row), ...changes.updated, ...changes.unaccepted].map(
        ({ messageId }) => `message ${messageId}`,
      ),
      ...[...changes.batches, ...seals, ...candidates].map(({ batch }) => `batch ${batch}`),
      ...changes.dailyStats.map((one) => `day ${dailyName(one)}`),
      ...changes.hourlyStats.map((one) => `hour ${hourlyName(one)}`),
      ...changes.rangeStats.map((one) => `range ${rangeName(one)}`),
      ...[...reversals, ...periods].map((one) => `period ${periodName(one)}`),
      ...(recording?.journals ?? []).map((one) => `journal ${journalName(one)}`),
    ]
    this.#lock(keys, () => {
      this.#writeRows(writes)
      if (recording === null) return answer(null)
      const closed = candidates.flatMap(({ batch }) => this.#close(batch))
      const crossed = periods.flatMap((period) => this.#cross(period))
      answer({ ...this.#lockedJournals(recording), closed, crossed })
    })
  }

  /** Writes the events. */
  record({ events, heads, records }: JournalWrites): Recorded {
    if (events.length === 0) return { events: 0, publication: null }
    for (const head of heads) {
      const name = journalName(head)
      const own = events.filter((event) => journalName(event) === name)
      const before = this.#store.tables.journals.get(name)?.events ?? []
      this.#written.journals.set(name, { lastAt: head.recordedAt, events: [...before, ...own] })
    }
    this.#onCommit.push(() => this.#store.listener.onRecorded(events))
    if (records.length === 0) return { events: events.length, publication: null }
    const outboxRow = this.#store.nextOutboxRow()
    this.#written.outbox.set(String(outboxRow), { records, createdAt: this.#store.now() })
    return { events: events.length, publication: { outboxRow, records } }
  }

  #writeRows({ changes, checkpoints, outcomesDue, personalData, seals }: BatchWrites): void {
    const { accepted, charges, operatorIds, unaccepted, updated } = changes
    const { tables } = this.#store
    const written = this.#written
    if (outcomesDue.length > 0) written.outcomesDue.set(this.#store.nextOutcomeRow(), outcomesDue)
    for (const checkpoint of checkpoints) {
      const name = partitionKey(checkpoint)
      const epoch = tables.checkpoints.get(name)?.epoch ?? 0
      written.checkpoints.set(name, { ...checkpoint, epoch })
    }
    for (const row of [...accepted.map((one) => one.row), ...updated, ...unaccepted]) {
      const before = tables.messages.get(row.messageId)
      written.messages.set(row.messageId, row)
      this.#onCommit.push(() => this.#store.listener.onMessage(row, before))
    }
    /** Returns false if the row exists. */
    const insert = <Row>(name: TableName, into: Map<string, Row>, key: string, row: Row): boolean => {
      if (this.#get(name, key) !== undefined) return false
      into.set(key, row)
      return true
    }
    for (const { fact } of accepted) {
      written.facts.set(fact.messageId, fact)
      const data = personalData.get(fact.messageId)
      if (data !== undefined) insert('personalData', written.personalData, fact.messageId, data)
    }
    for (const one of operatorIds) {
      const key = `${one.operator} ${one.operatorId} ${one.messageId}`
      insert('operatorIds', written.operatorIds, key, one)
    }
    for (const delta of changes.batches) this.#addToBatch(delta)
    for (const seal of seals) this.#sealBatch(seal)
    for (const delta of changes.dailyStats) {
      const name = dailyName(delta)
      written.dailyStats.set(name, add(this.#get('dailyStats', name), delta, delta.currency))
    }
    for (const delta of changes.hourlyStats) {
      const name = hourlyName(delta)
      written.hourlyStats.set(name, add(this.#get('hourlyStats', name), delta, delta.currency))
    }
    for (const delta of changes.rangeStats) {
      const name = rangeName(delta)
      written.rangeStats.set(name, add(this.#get('rangeStats', name), delta, delta.currency))
    }
    for (const charge of charges) {
      const isNew = insert('charges', written.charges, chargeName(charge), charge)
      if (isNew && charge.kind === 'reversal') this.#refund(charge)
    }
  }

  #batchOf(batch: string, account: string, mode: Mode): BatchRow {
    return (
      this.#get('batches', batch) ?? {
        batch,
        account,
        mode,
        members: 0,
        final: 0,
        delivered: 0,
        undelivered: 0,
        rejected: 0,
        expired: 0,
        seal: null,
        closed: false,
      }
    )
  }

  #addToBatch(delta: BatchDelta): void {
    const row = this.#batchOf(delta.batch, delta.account, delta.mode)
    this.#written.batches.set(delta.batch, {
      ...row,
      members: row.members + delta.members,
      final: row.final + delta.final,
      delivered: row.delivered + delta.delivered,
      undelivered: row.undelivered + delta.undelivered,
      rejected: row.rejected + delta.rejected,
      expired: row.expired + delta.expired,
    })
  }

  #sealBatch(seal: BatchSealed): void {
    const row = this.#batchOf(seal.batch, seal.account, seal.mode)
    this.#written.batches.set(seal.batch, { ...row, seal: row.seal ?? seal })
  }

  #close(batch: string): ReadonlyArray<ClosedBatch> {
    const row = this.#get('batches', batch)
    if (row === undefined || row.closed || row.seal === null) return []
    const { delivered, expired, final, members, rejected, seal, undelivered } = row
    if (final < seal.accepted || final !== members) return []
    this.#written.batches.set(batch, { ...row, closed: true })
    const { account, mode } = row
    return [
      {
        batch,
        account,
        mode,
        createdAt: seal.createdAt,
        closed: true,
        total: seal.total,
        accepted: seal.accepted,
        duplicate: seal.duplicate,
        rejectedAtAcceptance: seal.rejected,
        delivered,
        undelivered,
        rejectedByOperator: rejected,
        expired,
      },
    ]
  }

  #refund({ account, amount, period }: Charge): void {
    const name = periodName({ account, period })
    const row = this.#get('spendPeriods', name)
    if (row === undefined) return
    const spent = moneyOf(minorUnits(row.spent) - minorUnits(amount), amount.currency)
    this.#written.spendPeriods.set(name, { ...row, spent })
  }

  #cross({ account, period }: { readonly account: string; readonly period: string }) {
    const name = periodName({ account, period })
    const row = this.#get('spendPeriods', name)
    const settings = this.#store.spendLimits.get(account)
    if (row === undefined || settings === undefined || row.told) return []
    const { limit, softThresholdPercent } = settings
    if (minorUnits(row.spent) * 100n < minorUnits(limit) * BigInt(softThresholdPercent)) return []
    this.#written.spendPeriods.set(name, { ...row, told: true })
    const crossed: CommandSpendPeriods.CrossedThreshold = {
      account,
      period,
      limit,
      spent: row.spent,
      softThresholdPercent,
    }
    return [crossed]
  }

  #lockedJournals({ eventIds, journals }: EventRecording): Pick<LockedJournals, 'heads' | 'recorded'> {
    const heads = journals.map((journal): JournalHead => {
      const stored = this.#store.tables.journals.get(journalName(journal))
      return {
        ...journal,
        sequence: stored?.events.at(-1)?.sequence ?? 0,
        recordedAt: Math.max(stored?.lastAt ?? 0, Math.trunc(this.#store.now())),
        subscribed: this.#store.isSubscribed(journal),
      }
    })
    const wanted = new Set(eventIds)
    const recorded = new Set<string>()
    for (const { events } of this.#store.tables.journals.values()) {
      for (const { id } of events) if (wanted.has(id)) recorded.add(id)
    }
    return { heads, recorded }
  }

  // ---- other transactions

  /** Raises epochs. */
  acquire(
    partitions: ReadonlyArray<TopicPartition>,
    answer: (checkpoints: ReadonlyArray<Checkpoint>) => void,
  ): void {
    this.#lock(
      partitions.map((one) => `checkpoint ${partitionKey(one)}`),
      () => {
        const checkpoints = partitions.map(({ partition, topic }): Checkpoint => {
          const name = partitionKey({ topic, partition })
          const { epoch, fence, position } = this.#get('checkpoints', name) ?? {
            epoch: 0,
            fence: 0,
            position: 0,
          }
          const checkpoint = { topic, partition, position, fence, epoch: epoch + 1 }
          this.#written.checkpoints.set(name, checkpoint)
          return checkpoint
        })
        answer(checkpoints)
      },
    )
  }

  /** Takes entries of a source, and locks their journal heads. */
  take(
    source: EventSourceName,
    recordingOf: (entries: ReadonlyArray<JournalEntry>) => EventRecording,
    answer: (writes: JournalWrites | null, isFull: boolean) => void,
  ): void {
    const { entries, isFull } = this.#store.takeEntries(source, this)
    if (entries.length === 0) return answer(null, isFull)
    const taken = new Set(entries)
    this.#onCommit.push(() => this.#store.dropEntries(source, taken))
    const recording = recordingOf(entries)
    this.#lock(
      recording.journals.map((one) => `journal ${journalName(one)}`),
      () => answer(recording.write({ ...this.#lockedJournals(recording), closed: [], crossed: [] }), isFull),
    )
  }

  /** The oldest of these outbox rows; none while another transaction relays. */
  lockOutbox(wanted: RelayedRows): ReadonlyArray<readonly [number, OutboxRow]> {
    if (this.#isOver || this.#store.locks.isHeld('outbox')) return []
    this.#store.locks.acquire(this, ['outbox'], () => {})
    const rows = this.#store.nextOutboxRows(wanted)
    for (const [id] of rows) this.#deleted.push(['outbox', String(id)])
    return rows
  }

  /** The outcomes of the oldest rows that are due; `null`: none are, or another transaction publishes. */
  takeOutcomes(): ReadonlyArray<MessageOutcome> | null {
    if (this.#isOver || this.#store.locks.isHeld('outcomes')) return null
    this.#store.locks.acquire(this, ['outcomes'], () => {})
    const rows = [...this.#store.tables.outcomesDue].slice(0, OUTCOME_ROWS_PER_STEP)
    if (rows.length === 0) return null
    for (const [id] of rows) this.#deleted.push(['outcomesDue', id])
    return [...new Set(rows.flatMap(([, messageIds]) => messageIds))].flatMap((id) =>
      this.#store.outcomeOf(id),
    )
  }

  /** Locks a journal head, as the creation of a subscription does. */
  lockHead(journal: JournalKey, answer: (sequence: number) => void): void {
    const name = journalName(journal)
    this.#lock([`journal ${name}`], () =>
      answer(this.#store.tables.journals.get(name)?.events.at(-1)?.sequence ?? 0),
    )
  }

  /** Adds to the spend of a period. */
  charge(
    { account, amount, period }: Pick<Charge, 'account' | 'amount' | 'period'>,
    answer: () => void,
  ): void {
    const name = periodName({ account, period })
    this.#lock([`period ${name}`], () => {
      const { spent, told } = this.#get('spendPeriods', name) ?? {
        spent: zeroMoney(amount.currency),
        told: false,
      }
      this.#written.spendPeriods.set(name, { spent: addMoney(spent, amount), told })
      answer()
    })
  }

  commit(): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const name of Object.keys(this.#written) as ReadonlyArray<TableName>) {
      const table = this.#store.tables[name] as Map<string, unknown>
      for (const [key, row] of this.#written[name]) table.set(key, row)
    }
    for (const [name, key] of this.#deleted) this.#store.tables[name].delete(key)
    for (const act of this.#onCommit) act()
    this.#store.locks.release(this)
  }

  rollBack(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#store.locks.release(this)
  }
}

/** Fewer than in production, so that several steps follow each other. */
const OUTCOME_ROWS_PER_STEP = 3
/** As in the transactions of production. */
const ENTRIES_PER_TRANSACTION = 100

interface MemoryStoreOptions {
  /** The clock of PostgreSQL, milliseconds since the epoch. */
  readonly now: () => number
  readonly isSubscribed: (journal: JournalKey) => boolean
  /** Notices commits. */
  readonly onMessage?: (row: MessageRow, before: MessageRow | undefined) => void
  readonly onRecorded?: (events: ReadonlyArray<ReadEvents.JournalEvent>) => void
}

export class MemoryStore {
  readonly tables = emptyTables()
  readonly locks = new Locks()
  /** By account. */
  readonly spendLimits = new Map<string, SpendLimit>()
  readonly now: () => number
  readonly isSubscribed: (journal: JournalKey) => boolean
  readonly listener: Required<Pick<MemoryStoreOptions, 'onMessage' | 'onRecorded'>>
  readonly #sources = new Map<EventSourceName, Array<JournalEntry>>()
  /** Entries that a transaction has taken and not committed yet. */
  readonly #taken = new Map<JournalEntry, MemoryTransaction>()
  #outboxRows = 0
  #outcomeRows = 0

  constructor({ isSubscribed, now, onMessage, onRecorded }: MemoryStoreOptions) {
    this.now = now
    this.isSubscribed = isSubscribed
    this.listener = { onMessage: onMessage ?? (() => {}), onRecorded: onRecorded ?? (() => {}) }
  }

  begin(): MemoryTransaction {
    return new MemoryTransaction(this)
  }

  /** Adds events that do not come from a message fact. */
  addEntries(source: EventSourceName, entries: ReadonlyArray<JournalEntry>): void {
    this.#sources.set(source, [...(this.#sources.get(source) ?? []), ...entries])
  }

  /** Charges an account, as command-api does: in a transaction that waits for refunds. */
  charge(charge: Pick<Charge, 'account' | 'amount' | 'period'>): void {
    const transaction = this.begin()
    transaction.charge(charge, () => transaction.commit())
  }

  events(journal: JournalKey): ReadonlyArray<ReadEvents.JournalEvent> {
    return this.tables.journals.get(journalName(journal))?.events ?? []
  }

  nextOutboxRow(): number {
    return ++this.#outboxRows
  }

  nextOutcomeRow(): string {
    return String(++this.#outcomeRows)
  }

  /** The outcome of a message with a final status; empty for others. */
  outcomeOf(messageId: string): ReadonlyArray<MessageOutcome> {
    const { facts, messages, operatorIds } = this.tables
    const row = messages.get(messageId)
    const fact = facts.get(messageId)
    if (row === undefined || fact === undefined || row.subject === null) return []
    const { final, price } = derivedColumns(row)
    if (!final || price === null) return []
    return [
      {
        type: 'MessageOutcome',
        messageId,
        accountId: row.subject.account,
        messageMode: row.subject.mode,
        messageClass: row.subject.class,
        templateName: row.subject.template,
        senderName: fact.sender,
        batchId: row.subject.batch,
        operatorName:
          [...operatorIds.values()]
            .filter((one) => one.messageId === messageId)
            .toSorted((a, b) => b.sentAt - a.sentAt)[0]?.operator ?? null,
        partCount: row.subject.parts,
        attemptCount: row.attempts,
        finalStatus: row.status,
        reasonCode: row.reason,
        priceHundredths: Number(minorUnits(price)),
        priceCurrency: price.currency,
        acceptedAt: row.subject.at,
        submittedAt: row.sentAt,
        finalAt: row.finalAt ?? row.timedOutAt ?? row.updatedAt,
      },
    ]
  }

  stored(partitions: ReadonlyArray<string>, messageIds: ReadonlyArray<string>): StoredState {
    const { checkpoints, messages } = this.tables
    const rows = messageIds.flatMap((id) => messages.get(id) ?? [])
    return {
      checkpoints: partitions.flatMap((name) => checkpoints.get(name) ?? []),
      rows: new Map(rows.map((row) => [row.messageId, row])),
    }
  }

  takeEntries(source: EventSourceName, by: MemoryTransaction): TakenEntries {
    for (const [entry, owner] of this.#taken) if (owner.isOver) this.#taken.delete(entry)
    const free = (this.#sources.get(source) ?? []).filter((entry) => !this.#taken.has(entry))
    const entries = free.slice(0, ENTRIES_PER_TRANSACTION)
    for (const entry of entries) this.#taken.set(entry, by)
    return { entries, isFull: entries.length === ENTRIES_PER_TRANSACTION }
  }

  dropEntries(source: EventSourceName, taken: ReadonlySet<JournalEntry>): void {
    this.#sources.set(
      source,
      (this.#sources.get(source) ?? []).filter((entry) => !taken.has(entry)),
    )
  }

  /** The committed outbox rows, by their ids as numbers. */
  get #outbox() {
    return [...this.tables.outbox].map(([id, row]) => [Number(id), row] as const)
  }

  nextOutboxRows(wanted: RelayedRows): ReadonlyArray<readonly [number, OutboxRow]> {
    return nextRows(this.#outbox, wanted, this.now())
  }

  outboxStatus(upTo: number): OutboxStatus {
    return statusOf(this.#outbox, upTo, this.now())
  }

  deleteOutboxRows(rows: ReadonlyArray<number>): void {
    for (const row of rows) this.tables.outbox.delete(String(row))
  }

  /** The port: each transaction runs as fast as the locks of others let it. */
  shape(): ProjectionStoreShape {
    return {
      acquire: (partitions) => this.#run((transaction, done) => transaction.acquire(partitions, done)),
      apply: (batch) =>
        this.#run((transaction, done) =>
          transaction.lockAndRead(batch, (decided) => {
            if (typeof decided === 'string') return done({ kind: decided })
            transaction.write((locked) =>
              done({
                kind: 'applied',
                ...(locked === null || decided.recording === null
                  ? { events: 0, publication: null }
                  : transaction.record(decided.recording.write(locked))),
              }),
            )
          }),
        ),
      takeEvents: (source, recordingOf) =>
        this.#run((transaction, done) =>
          transaction.take(source, recordingOf, (writes, isFull) =>
            done({
              isFull,
              ...(writes === null ? { events: 0, publication: null } : transaction.record(writes)),
            }),
          ),
        ),
      publishOutcomes: (publish) =>
        Effect.suspend(() => {
          const transaction = this.begin()
          const outcomes = transaction.takeOutcomes()
          return (outcomes === null ? Effect.succeed(0) : Effect.as(publish(outcomes), 1)).pipe(
            Effect.tap(() => Effect.sync(() => transaction.commit())),
            Effect.ensuring(Effect.sync(() => transaction.rollBack())),
          )
        }),
    }
  }

  /** The port of the outbox. */
  outbox(): OutboxStoreShape {
    return {
      relay: (wanted, publish) =>
        Effect.suspend(() => {
          const transaction = this.begin()
          const rows = transaction.lockOutbox(wanted)
          return (rows.length === 0 ? Effect.void : publish(rows.flatMap(([, { records }]) => records))).pipe(
            Effect.tap(() => Effect.sync(() => transaction.commit())),
            Effect.ensuring(Effect.sync(() => transaction.rollBack())),
            Effect.as(rows.length),
          )
        }),
      status: (upTo) => Effect.sync(() => this.outboxStatus(upTo)),
      remove: (rows) => Effect.sync(() => this.deleteOutboxRows(rows)),
    }
  }

  #run<A>(body: (transaction: MemoryTransaction, done: (value: A) => void) => void): Effect.Effect<A> {
    return Effect.callback((resume) => {
      const transaction = this.begin()
      body(transaction, (value) => {
        transaction.commit()
        resume(Effect.succeed(value))
      })
      return Effect.sync(() => transaction.rollBack())
    })
  }
}
