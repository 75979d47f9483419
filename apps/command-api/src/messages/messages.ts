/**
 * Reads messages: from the read model and, until the projector has applied them, from the ledger.
 * So a client can read a message as soon as it has the 202.
 */
import { encodeId, maskNumber, rank } from '@hub/domain'
import {
  decodePayload,
  type DecryptionFailed,
  MasterKeyEncryption,
  type MessagePayload,
  PayloadEncryption,
  type PayloadKeyUnusable,
  ReadMessages,
  Sql,
  type StorageError,
} from '@hub/store'
import { Context, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { type AcceptanceRow, readAcceptances } from './acceptances.ts'
import { makeBatchedReader } from './batched-reads.ts'
import type { MessageContent, MessageView, StatusChange } from './message.ts'

/** A message of any owner. */
interface StoredMessage {
  readonly view: MessageView
  /** `acc_…` */
  readonly account: string
  /** Kafka has its record: it is in the read model, or a code of a sealed batch. */
  readonly published: boolean
  /** A code that its process has certainly not given to Kafka. */
  readonly unpublished: boolean
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
}

/** A message with the part of its content that may still be shown. */
export interface ReadMessage {
  readonly view: MessageView
  readonly content: MessageContent | null
}

type ProjectedMessage = ReadMessages.ProjectedMessage

/** Statuses in the order of their ranks: two processes with two clocks write the times. */
const historyOf = (row: ProjectedMessage): ReadonlyArray<StatusChange> => {
  const changes = (row.history ?? []).map(({ status, reason, at }) => ({ status, reason, at: Number(at) }))
  if (!changes.some(({ status }) => status === 'accepted')) {
    changes.push({ status: 'accepted', reason: null, at: row.created_at.getTime() })
  }
  return changes.sort((a, b) => rank(a.status, a.reason) - rank(b.status, b.reason) || a.at - b.at)
}

const commonView = (row: ProjectedMessage | AcceptanceRow) => ({
  id: encodeId('msg', row.id),
  mode: row.mode,
  class: row.class,
  createdAt: row.created_at.getTime(),
  clientRef: row.client_ref,
  batch: row.batch_id === null ? null : encodeId('bat', row.batch_id),
  template: row.template,
  sender: row.sender,
  parts: row.parts,
  price: { amount: row.price, currency: row.currency },
})

const projectedView = (row: ProjectedMessage, toMasked: string): MessageView => ({
  ...commonView(row),
  toMasked,
  status: row.status,
  reason: row.reason_code,
  updatedAt: row.updated_at.getTime(),
  attempts: row.attempts,
  variables: row.in_first_year ? row.variables : null,
  history: historyOf(row),
})

const acceptanceView = (row: AcceptanceRow): MessageView => ({
  ...commonView(row),
  toMasked: row.to_masked,
  status: 'accepted',
  reason: null,
  updatedAt: row.created_at.getTime(),
  attempts: 0,
  variables: row.variables,
  history: [{ status: 'accepted', reason: null, at: row.created_at.getTime() }],
})

const contentOf = (payload: MessagePayload | null): MessageContent | null =>
  payload?.text === undefined ? null : { text: payload.text, variables: payload.variables ?? {} }

const maskOf = (payload: MessagePayload | null): string => (payload === null ? '' : maskNumber(payload.to))

const isOwnedBy = (owner: Owner) => (row: ProjectedMessage | AcceptanceRow) =>
  row.account === owner.accountUuid && row.mode === owner.mode

/** Concurrent statements for single reads: others run while one waits for the disk. */
const CONCURRENT_STATEMENTS = 3
/** Messages in one statement: a few milliseconds of PostgreSQL's time. */
const STATEMENT_MESSAGES = 100

export class Messages extends Context.Service<Messages>()('@hub/command-api/Messages', {
  make: Effect.gen(function* () {
    const sql = yield* Sql
    const masterKey = yield* MasterKeyEncryption
    const payloadEncryption = yield* PayloadEncryption

    const selectProjected = (ids: ReadonlyArray<string>) =>
      sql.run((q) => ReadMessages.readAll(q, ids), STATEMENT_DEADLINE)
    const selectAcceptances = (ids: ReadonlyArray<string>) =>
      sql.run((q) => readAcceptances(q, ids), STATEMENT_DEADLINE)

    /**
     * Parses a decrypted payload; `null` without its key. Where it cannot be decrypted, the message is
     * answered without its content.
     */
    const parsed = (
      id: string,
      decrypted: Effect.Effect<Buffer | null, StorageError | PayloadKeyUnusable | DecryptionFailed>,
    ): Effect.Effect<MessagePayload | null, StorageError> => {
      const withoutContent = ({ _tag, reason }: PayloadKeyUnusable | DecryptionFailed) =>
        Effect.logError(
          'messages: a stored payload cannot be decrypted; answering without it. Check the master key',
        ).pipe(Effect.annotateLogs({ message_id: id, failure: _tag, reason }), Effect.as(null))
      return decrypted.pipe(
        Effect.map((plain) => (plain === null ? null : decodePayload(plain))),
        Effect.catchTags({ DecryptionFailed: withoutContent, PayloadKeyUnusable: withoutContent }),
      )
    }

    const decryptPersonal = (row: ProjectedMessage): Effect.Effect<MessagePayload | null, StorageError> => {
      if (row.personal === null) return Effect.succeed(null)
      const id = encodeId('msg', row.id)
      return parsed(
        id,
        row.personal_key === null
          ? masterKey.decrypt('personal-data', id, row.personal)
          : payloadEncryption.decrypt(row.personal_key, id, row.personal),
      )
    }

    const decryptAcceptance = (row: AcceptanceRow): Effect.Effect<MessagePayload | null, StorageError> => {
      if (row.sealed === null || row.sealing_key === null) return Effect.succeed(null)
      const id = encodeId('msg', row.id)
      return parsed(id, payloadEncryption.decrypt(row.sealing_key, id, row.sealed))
    }

    const readProjected = Effect.fnUntraced(function* (row: ProjectedMessage) {
      const payload = yield* decryptPersonal(row)
      return { view: projectedView(row, maskOf(payload)), content: contentOf(payload) }
    })

    /** Call it only with ids that the read model does not contain. */
    const readAccepted = Effect.fnUntraced(function* (owner: Owner, ids: ReadonlyArray<string>) {
      const read = new Map<string, ReadMessage>()
      for (const row of (yield* selectAcceptances(ids)).filter(isOwnedBy(owner))) {
        const view = acceptanceView(row)
        read.set(view.id, { view, content: contentOf(yield* decryptAcceptance(row)) })
      }
      return read
    })

    const stored = (
      row: ProjectedMessage | AcceptanceRow,
      view: MessageView,
      known: Pick<StoredMessage, 'published' | 'unpublished'>,
    ): StoredMessage => ({
      view,
      account: encodeId('acc', row.account),
      ...known,
      recipient: row.recipient.toString('hex'),
    })

    /** Messages by UUID, of any owner and age. The key of the result is the id (`msg_…`). */
    const find = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
      const found = new Map<string, StoredMessage>()
      if (ids.length === 0) return found
      // The read model comes first: a row leaves the ledger only after its projection.
      for (const row of yield* selectProjected(ids)) {
        const view = projectedView(row, maskOf(yield* decryptPersonal(row)))
        found.set(view.id, stored(row, view, { published: true, unpublished: false }))
      }
      const missing = ids.filter((id) => !found.has(encodeId('msg', id)))
      if (missing.length === 0) return found
      for (const row of yield* selectAcceptances(missing)) {
        const view = acceptanceView(row)
        const { acknowledged, unpublished } = row
        found.set(view.id, stored(row, view, { published: acknowledged, unpublished }))
      }
      return found
    })

    /** Like `read` for several UUIDs. The key of the result is the id (`msg_…`). */
    const readAll = Effect.fnUntraced(function* (owner: Owner, ids: ReadonlyArray<string>) {
      const read = new Map<string, ReadMessage>()
      if (ids.length === 0) return read
      const rows = yield* selectProjected(ids)
      for (const row of rows.filter(isOwnedBy(owner)).filter(({ is_shown }) => is_shown)) {
        read.set(encodeId('msg', row.id), yield* readProjected(row))
      }
      const projected = new Set(rows.map((row) => row.id))
      const missing = ids.filter((id) => !projected.has(id))
      if (missing.length === 0) return read
      for (const [id, message] of yield* readAccepted(owner, missing)) read.set(id, message)
      return read
    })

    const readBatched = yield* makeBatchedReader<ProjectedMessage, StorageError>({
      load: (ids) => Effect.map(selectProjected(ids), (rows) => new Map(rows.map((row) => [row.id, row]))),
      maxConcurrent: CONCURRENT_STATEMENTS,
      maxKeys: STATEMENT_MESSAGES,
    })

    /** One message of an owner by UUID; `null` without one in the last three years. */
    const read = Effect.fnUntraced(function* (owner: Owner, id: string) {
      const row = yield* readBatched(id)
      if (row === null) return (yield* readAccepted(owner, [id])).get(encodeId('msg', id)) ?? null
      return row.is_shown && isOwnedBy(owner)(row) ? yield* readProjected(row) : null
    })

    return { find, readAll, read }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
