/**
 * The ledger in memory: the test double of `ledger.port.ts`. It passes `ledger.contract.ts`, like
 * the ledger in PostgreSQL, and can fail in every way in which PostgreSQL can.
 */
import { addMoney, fromTimestamp, type Money, zeroMoney } from '@hub/domain'
import { makeMemoryOutbox } from '@hub/outbox/testing'
import { StorageRejected, StorageUnavailable } from '@hub/store'
import { Deferred, Effect } from 'effect'
import { type EarlierMessage, refKey } from '../accept/batch/decide.ts'
import type {
  BatchRow,
  Commit,
  CommitResult,
  ExtraWrites,
  Ledger,
  LedgerEntry,
} from '../accept/ledger/ledger.port.ts'
import { type Charge, chargesOf, overspending, periodKey } from '../accept/ledger/spend.ts'
import type { Owner } from '../accounts/account.ts'
import type { StoredResponse } from '../idempotency/idempotency-keys.port.ts'
import { acceptedView } from '../messages/message.ts'

/** The clock of the ledger stands still, unless a test provides one. */
export const NOW = fromTimestamp('2026-11-21T09:30:00.000Z')!

/**
 * How a call behaves. `lost reply`: it succeeds, and is reported as timed out. `lost request`: it does
 * not happen, and is reported as timed out. The last two apply to one commit; the next one is `ok`.
 */
export type LedgerBehavior = 'ok' | 'unavailable' | 'lost reply' | 'lost request'

const timedOut = new StorageUnavailable({ reason: 'timeout', detail: 'test' })
const unreachable = new StorageUnavailable({ reason: 'unreachable', detail: 'ECONNREFUSED' })

/**
 * `now`: PostgreSQL's clock, milliseconds since the epoch. `outbox`: its table, whose rows need a clock that
 * runs.
 */
export const makeMemoryLedger = (now: () => number = () => NOW, outbox = makeMemoryOutbox(now)) => {
  /** Message ids by `refKey`. */
  const references = new Map<string, string>()
  const rows = new Map<string, LedgerEntry>()
  /** Message ids that the read model contains. */
  const projected = new Set<string>()
  const optedOut = new Set<string>()
  /** Sends of each commit. */
  const commits: Array<number> = []
  const batches = new Map<string, BatchRow>()
  /** By idempotency key. */
  const responses = new Map<string, StoredResponse>()
  /** Message ids that are charged and not refunded. */
  const charged = new Set<string>()
  /** Message ids of codes with an earlier try that Kafka may contain. */
  const maybePublished = new Set<string>()
  const commitIds = new Map<string, 'committed' | 'withdrawn'>()
  const state = {
    behavior: 'ok' as LedgerBehavior,
    sealBehavior: 'ok' as LedgerBehavior,
    /** PostgreSQL rejects a transaction that contains this reference. */
    rejectedReference: null as string | null,
    /** Number of acceptances that an account can afford, in addition to its spend limit. */
    affordable: Infinity,
    /** Tokens of idempotency locks that were lost. */
    lostLocks: new Set<string>(),
    /** If set, commits wait for it. */
    barrier: null as Deferred.Deferred<void> | null,
    /** False: the result of a commit cannot be found out. */
    withdraws: true,
    /** Lookups time out. */
    hanging: false,
    /** If set, refunds wait for it. */
    refundBarrier: null as Deferred.Deferred<void> | null,
    /** Runs between lookup and commit: what another process does meanwhile. */
    beforeCommit: () => {},
  }

  const isCodeOf = (batch: BatchRow, { fact }: LedgerEntry): boolean =>
    fact.class === 'otp' && fact.batch === batch.id && charged.has(fact.messageId)

  const isSealedAfter = ({ sealedAt }: BatchRow, at: number): boolean => sealedAt !== null && sealedAt >= at

  const isPublished = (id: string): boolean => {
    const entry = rows.get(id)
    if (projected.has(id)) return true
    const batch = batches.get(entry?.fact.batch ?? '')
    return (
      entry !== undefined &&
      entry.fact.expiresAt > now() &&
      batch !== undefined &&
      isSealedAfter(batch, entry.fact.at) &&
      isCodeOf(batch, entry)
    )
  }

  const knownOf = (id: string): EarlierMessage | null => {
    const entry = rows.get(id)
    if (entry === undefined) return null
    const { fact, toMasked } = entry
    return {
      recipient: fact.recipient,
      published: isPublished(id),
      unpublished: fact.class === 'otp' && !charged.has(id) && !maybePublished.has(id),
      view: acceptedView(fact, toMasked),
    }
  }

  const chargedOf = (charge: Pick<Charge, 'accountUuid' | 'period'>): Money =>
    chargesOf([...rows.values()].filter(({ fact }) => charged.has(fact.messageId)))
      .filter((one) => periodKey(one) === periodKey(charge))
      .reduce((sum, { price }) => addMoney(sum, price), zeroMoney('RUB'))

  const spentOf = (owner: Owner): string =>
    chargesOf([...rows.values()].filter(({ fact }) => charged.has(fact.messageId)))
      .filter(({ accountUuid }) => accountUuid === owner.accountUuid)
      .reduce((sum, { price }) => addMoney(sum, price), zeroMoney('RUB')).amount

  const exceedingLimit = (entries: ReadonlyArray<LedgerEntry>): ReadonlySet<string> => {
    const charges = chargesOf(entries).filter(({ limit }) => limit !== null)
    return overspending(charges, new Map(charges.map((charge) => [periodKey(charge), chargedOf(charge)])))
  }

  const ledger: Ledger['Service'] = {
    lookup: ({ recipients, references: asked, remembered }) =>
      Effect.suspend(() => {
        if (state.hanging) return Effect.andThen(Effect.sleep('1200 millis'), Effect.fail(timedOut))
        const known = new Map<string, EarlierMessage | null>()
        for (const reference of asked) {
          const key = refKey(reference.owner, reference.clientRef)
          const id = references.get(key)
          if (id !== undefined) known.set(key, knownOf(id))
        }
        const recorded = new Map(
          remembered.flatMap((id) => {
            const found = knownOf(id)
            return found === null ? [] : [[id, found] as const]
          }),
        )
        const out = new Set(recipients.filter((recipient) => optedOut.has(recipient)))
        return Effect.succeed({ at: now(), known, recorded, optedOut: out })
      }),

    commit: Effect.fnUntraced(function* <Writes extends ExtraWrites>({
      accepted,
      appendedRows,
      extraWrites,
      id,
      republished,
    }: Commit<Writes>) {
      if (state.barrier !== null) yield* Deferred.await(state.barrier)
      state.beforeCommit()
      const { behavior } = state
      if (behavior === 'unavailable') return yield* unreachable
      if (behavior === 'lost request') {
        state.behavior = 'ok'
        return yield* timedOut
      }
      if (commitIds.get(id) === 'withdrawn')
        return yield* new StorageUnavailable({ reason: 'conflict', detail: '40001' })
      if (
        accepted.some(({ fact }) => fact.clientRef !== null && fact.clientRef === state.rejectedReference)
      ) {
        return yield* new StorageRejected({ code: '22021', constraint: null })
      }
      commits.push(accepted.length + republished.length)
      commitIds.set(id, 'committed')
      const takenElsewhere = new Set<string>()
      const overspent = new Set<string>()
      const lockLost = new Set<string>()
      const recorded: Array<LedgerEntry> = []
      for (const { fact } of republished) {
        const { at, batch, messageId } = fact
        if (isPublished(messageId)) takenElsewhere.add(messageId)
        else if (charged.delete(messageId)) maybePublished.add(messageId)
        if (maybePublished.has(messageId) && rows.get(messageId)?.fact.batch !== batch)
          takenElsewhere.add(messageId)
        const row = batches.get(batch ?? '')
        if (row !== undefined && isSealedAfter(row, at)) takenElsewhere.add(messageId)
      }
      const toRepublish = republished.filter(({ fact }) => !takenElsewhere.has(fact.messageId))
      const overLimit = exceedingLimit([...accepted, ...toRepublish])
      for (const entry of [...accepted, ...toRepublish]) {
        const { clientRef, messageId } = entry.fact
        const key = clientRef === null ? null : refKey(entry.owner, clientRef)
        if (entry.lock !== null && state.lostLocks.has(entry.lock.token)) lockLost.add(messageId)
        else if (overLimit.has(messageId) || charged.size + recorded.length >= state.affordable) {
          overspent.add(messageId)
        } else if (key !== null && accepted.includes(entry) && references.has(key))
          takenElsewhere.add(messageId)
        else {
          if (key !== null) references.set(key, messageId)
          recorded.push(entry)
        }
      }
      for (const entry of recorded) {
        rows.set(entry.fact.messageId, entry)
        charged.add(entry.fact.messageId)
      }
      outbox.remove(appendedRows)
      const extra = extraWrites({ takenElsewhere, overspent, lockLost })
      for (const batch of extra.batches) batches.set(batch.id, batch)
      for (const { lock, response } of extra.responses) responses.set(lock.key, response)
      const outboxRow = extra.outbox === null ? null : outbox.insert(extra.outbox)
      if (behavior === 'lost reply') {
        state.behavior = 'ok'
        return yield* timedOut
      }
      return {
        takenElsewhere,
        overspent,
        lockLost,
        outboxRow,
        extraWrites: extra,
      } satisfies CommitResult<Writes>
    }),

    withdraw: (id) =>
      Effect.suspend(() => {
        if (!state.withdraws || state.behavior === 'unavailable') return Effect.fail(unreachable)
        if (!commitIds.has(id)) commitIds.set(id, 'withdrawn')
        return Effect.succeed(commitIds.get(id) ?? 'withdrawn')
      }),

    refund: Effect.fnUntraced(function* (codes) {
      if (state.refundBarrier !== null) yield* Deferred.await(state.refundBarrier)
      if (state.behavior === 'unavailable') return yield* unreachable
      for (const { at, messageId } of codes) {
        const isSame = at === null || rows.get(messageId)?.fact.at === at
        if (isSame && !isPublished(messageId)) charged.delete(messageId)
      }
    }),

    seal: (batch, codes, records) =>
      Effect.suspend(() => {
        if (state.sealBehavior === 'unavailable') return Effect.fail(timedOut)
        if (batches.get(batch.id)?.sealedAt != null) return Effect.succeed(null)
        const present = [...rows.values()].filter((entry) => isCodeOf(batch, entry))
        if (present.length !== codes) return Effect.succeed(null)
        batches.set(batch.id, batch)
        const row = outbox.insert(records)
        return state.sealBehavior === 'lost reply' ? Effect.fail(timedOut) : Effect.succeed(row)
      }),

    discard: (id) =>
      Effect.suspend(() => {
        if (state.sealBehavior === 'unavailable') return Effect.fail(timedOut)
        const batch = batches.get(id)
        const isEmpty = [...rows.values()].every(
          ({ fact }) => fact.batch !== id || !charged.has(fact.messageId),
        )
        if (batch !== undefined && batch.sealedAt === null && isEmpty) batches.delete(id)
        return Effect.void
      }),

    sealFromLedger: Effect.fnUntraced(function* (ids, encode) {
      if (state.behavior === 'unavailable') return yield* unreachable
      const open: Array<string> = []
      const sealed: Array<BatchRow & { readonly sealedAt: number }> = []
      for (const id of ids) {
        const batch = batches.get(id)
        if (batch === undefined || batch.sealedAt !== null) continue
        const members = [...rows.values()].filter(
          ({ fact }) => fact.batch === id && charged.has(fact.messageId),
        )
        if (members.some(({ fact }) => fact.class === 'otp' && !projected.has(fact.messageId))) open.push(id)
        else {
          const accepted = members.length
          const rejected = batch.total - accepted - batch.duplicate
          sealed.push({ ...batch, accepted, rejected, sealedAt: now() })
        }
      }
      for (const batch of sealed) batches.set(batch.id, batch)
      if (sealed.length === 0) return { open, outboxRow: null }
      return { open, outboxRow: outbox.insert(encode(sealed)) }
    }),
  }
  return {
    ledger,
    state,
    references,
    rows,
    outbox: outbox.rows,
    outboxStore: outbox.store,
    projected,
    optedOut,
    commits,
    batches,
    responses,
    charged,
    spentOf,
  }
}
export type MemoryLedger = ReturnType<typeof makeMemoryLedger>
