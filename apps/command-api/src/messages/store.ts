/**
 * Messages as PostgreSQL knows them: from the read model, and until the projector has them there, from the ledger,
 * so that a client can always read what it was just told.
 */
import {
  encodeId,
  maskNumber,
  type MessageClass,
  type Mode,
  rank,
  type ReasonCode,
  type Status,
} from '@hub/domain'
import {
  type DecryptionFailed,
  type Queries,
  PayloadEncryption,
  Sql,
  type StorageError,
  MasterKeyEncryption,
} from '@hub/store'
import { Context, Duration, Effect, Layer } from 'effect'
import { isAcknowledged } from '../accept/ledger-statements.ts'
import type { Owner } from '../accounts/account.ts'
import { gather } from './gathered.ts'
import type { MessageContent, MessageView, StatusChange } from './message.ts'

/** A message, and where it was found. */
export interface StoredMessage {
  readonly view: MessageView
  /** `acc_…` */
  readonly account: string
  /** Its record has gone through Kafka: it is in the read model, or a code of a sealed batch (`isAcknowledged`). */
  readonly published: boolean
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
}

/** A message with what is still kept of its content. */
export interface ReadMessage {
  readonly view: MessageView
  readonly content: MessageContent | null
}

const NIL = '00000000-0000-0000-0000-000000000000'

interface Row {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  readonly recipient: Buffer
  readonly template: string
  readonly sender: string
  readonly client_ref: string | null
  readonly batch_id: string | null
  readonly parts: number
  readonly price: string
  readonly currency: string
  readonly variables: ReadonlyArray<string>
  readonly created_at: Date
}

interface ProjectedRow extends Row {
  readonly updated_at: Date
  readonly status: Status
  readonly reason_code: ReasonCode | null
  readonly attempts: number
  readonly history: ReadonlyArray<{
    readonly status: Status
    readonly reason: ReasonCode | null
    readonly at: number
  }> | null
  /** No number and no text is shown after it. */
  readonly in_first_year: boolean
  /** It is not older than three years. */
  readonly is_shown: boolean
  /** `null`: the box is under the master key. */
  readonly personal_key: string | null
  readonly personal: Buffer | null
}

interface AcceptanceRow extends Row {
  readonly to_masked: string
  readonly sealing_key: string | null
  readonly sealed: Buffer | null
  readonly acknowledged: boolean
}

/** Ids of PostgreSQL's sort as their text does. Months outside their range are not opened: docs/decisions/0018. */
const rangeOf = (ids: ReadonlyArray<string>) => {
  const sorted = ids.toSorted()
  return { first: sorted[0] ?? NIL, last: sorted.at(-1) ?? NIL }
}

/**
 * Each message is a probe of the month that it is in, however the statement is planned (docs/decisions/0009). A year after its acceptance a
 * message has no number and no text, whether they are gone already or not. Source: specification, Retention.
 */
const selectProjected = (q: Queries, ids: ReadonlyArray<string>) => {
  const { first, last } = rangeOf(ids)
  return q<ProjectedRow[]>`
  SELECT m.id, m.account, m.mode, m.class, m.recipient, m.template, m.sender, m.client_ref, m.batch_id, m.parts,
         m.price, m.currency, m.variables, m.created_at, m.updated_at, m.status, m.reason_code, m.attempts,
         (SELECT json_agg(json_build_object('status', h.status, 'reason', h.reason_code,
                                            'at', floor(extract(epoch FROM h.at) * 1000)))
            FROM read.message_history h
           WHERE h.message_id = m.id AND h.message_id BETWEEN ${first} AND ${last}) AS history,
         m.created_at > now() - interval '1 year' AS in_first_year,
         m.created_at > now() - interval '3 years' AS is_shown,
         p.sealing_key AS personal_key, p.sealed AS personal
    FROM unnest(${[...ids]}::uuid[]) AS asked (id)
   CROSS JOIN LATERAL (
         SELECT * FROM read.messages WHERE id = asked.id AND id BETWEEN ${first} AND ${last} LIMIT 1) AS m
    LEFT JOIN LATERAL (
         SELECT sealing_key, sealed FROM read.personal_data
          WHERE message_id = asked.id AND message_id BETWEEN ${first} AND ${last} LIMIT 1) AS p
      ON m.created_at > now() - interval '1 year'
   WHERE m.account IS NOT NULL`
}

const selectAcceptances = (q: Queries, ids: ReadonlyArray<string>) => q<AcceptanceRow[]>`
  SELECT message_id AS id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency,
         variables, created_at, to_masked, sealing_key, sealed, ${isAcknowledged(q)} AS acknowledged
    FROM command.acceptances a WHERE message_id = ANY (${[...ids]}::uuid[])`

/** Every status in its order. The ranks decide: two processes stamped these moments, each by its own clock. */
const historyOf = (row: ProjectedRow): ReadonlyArray<StatusChange> => {
  const changes = (row.history ?? []).map(({ status, reason, at }) => ({ status, reason, at: Number(at) }))
  if (!changes.some(({ status }) => status === 'accepted')) {
    changes.push({ status: 'accepted', reason: null, at: row.created_at.getTime() })
  }
  return changes.sort((a, b) => rank(a.status, a.reason) - rank(b.status, b.reason) || a.at - b.at)
}

const common = (row: Row) => ({
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

const projectedView = (row: ProjectedRow, toMasked: string): MessageView => ({
  ...common(row),
  toMasked,
  status: row.status,
  reason: row.reason_code,
  updatedAt: row.updated_at.getTime(),
  attempts: row.attempts,
  variables: row.in_first_year ? row.variables : null,
  history: historyOf(row),
})

const acceptedView = (row: AcceptanceRow): MessageView => ({
  ...common(row),
  toMasked: row.to_masked,
  status: 'accepted',
  reason: null,
  updatedAt: row.created_at.getTime(),
  attempts: 0,
  variables: row.variables,
  history: [{ status: 'accepted', reason: null, at: row.created_at.getTime() }],
})

/** What is sealed with a message: the payload of the lanes, and the row of `read.personal_data`. */
interface Payload {
  readonly to?: string
  readonly text?: string | null
  readonly variables?: Readonly<Record<string, string>> | null
}

const parsePayload = (plain: Buffer): Payload => JSON.parse(plain.toString('utf8')) as Payload

const contentOf = (payload: Payload | null): MessageContent | null =>
  payload === null || typeof payload.text !== 'string'
    ? null
    : { text: payload.text, variables: payload.variables ?? {} }

/** Clients are promised an answer within 3 s; a read is one or two of these. */
const DEADLINE = { deadline: Duration.millis(1200) }

/**
 * Statements of single reads under way: what is on disk takes PostgreSQL a while, and its other processes go on meanwhile. More would only be smaller.
 */
const STATEMENTS = 3
/** Messages of one statement: a few milliseconds of PostgreSQL's time. */
const GATHERED = 100

export class Messages extends Context.Service<
  Messages,
  {
    /** Those of the ids (UUIDs) that exist, by id (`msg_…`), whoever owns them, however old. */
    readonly find: (
      ids: ReadonlyArray<string>,
    ) => Effect.Effect<ReadonlyMap<string, StoredMessage>, StorageError>
    /** One message of an owner; `null` when there is none of the last three years. */
    readonly read: (owner: Owner, id: string) => Effect.Effect<ReadMessage | null, StorageError>
    /** The same for several ids (UUIDs); those that are missing or another's are left out. By id (`msg_…`). */
    readonly readAll: (
      owner: Owner,
      ids: ReadonlyArray<string>,
    ) => Effect.Effect<ReadonlyMap<string, ReadMessage>, StorageError>
  }
>()('@hub/command-api/Messages') {
  static readonly layer: Layer.Layer<Messages, never, Sql | MasterKeyEncryption | PayloadEncryption> =
    Layer.effect(
      Messages,
      Effect.gen(function* () {
        const sql = yield* Sql
        const masterKey = yield* MasterKeyEncryption
        const payloadEncryption = yield* PayloadEncryption

        /** A box that does not open is a fault of the deployment (a wrong master key); the message is still answered, without. */
        const orNothing = (
          id: string,
          opened: Effect.Effect<Payload | null, StorageError | DecryptionFailed>,
        ) =>
          opened.pipe(
            Effect.catchTag('DecryptionFailed', (error) =>
              Effect.logError('a stored payload does not open').pipe(
                Effect.annotateLogs({ message_id: id, purpose: error.purpose }),
                Effect.as(null),
              ),
            ),
          )

        const openPersonal = (row: ProjectedRow): Effect.Effect<Payload | null, StorageError> => {
          if (row.personal === null) return Effect.succeed(null)
          const id = encodeId('msg', row.id)
          const opened =
            row.personal_key === null
              ? masterKey.decrypt('personal-data', id, row.personal)
              : payloadEncryption.decrypt(row.personal_key, id, row.personal)
          return orNothing(
            id,
            Effect.map(opened, (plain) => (plain === null ? null : parsePayload(plain))),
          )
        }

        const openAcceptance = (row: AcceptanceRow): Effect.Effect<Payload | null, StorageError> => {
          // Without its number it is that of somebody who has been forgotten: what is still to be sent is not shown any more.
          if (row.to_masked === '' || row.sealed === null || row.sealing_key === null) {
            return Effect.succeed(null)
          }
          const id = encodeId('msg', row.id)
          return orNothing(
            id,
            Effect.map(payloadEncryption.decrypt(row.sealing_key, id, row.sealed), (plain) =>
              plain === null ? null : parsePayload(plain),
            ),
          )
        }

        const maskOf = (payload: Payload | null): string =>
          payload?.to === undefined ? '' : maskNumber(payload.to)

        const find = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
          const found = new Map<string, StoredMessage>()
          if (ids.length === 0) return found
          // Read model first: what leaves the ledger is in the read model already.
          const projected = yield* sql.run((q) => selectProjected(q, ids), DEADLINE)
          for (const row of projected) {
            const view = projectedView(row, maskOf(yield* openPersonal(row)))
            found.set(view.id, {
              view,
              account: encodeId('acc', row.account),
              published: true,
              recipient: row.recipient.toString('hex'),
            })
          }
          const missing = ids.filter((id) => !found.has(encodeId('msg', id)))
          if (missing.length === 0) return found
          for (const row of yield* sql.run((q) => selectAcceptances(q, missing), DEADLINE)) {
            const view = acceptedView(row)
            found.set(view.id, {
              view,
              account: encodeId('acc', row.account),
              published: row.acknowledged,
              recipient: row.recipient.toString('hex'),
            })
          }
          return found
        })

        const isOf = (row: Row, owner: Owner) => row.account === owner.accountUuid && row.mode === owner.mode

        /** Those of an owner that the ledger has. Only of what the read model was asked for before, and did not have. */
        const readAccepted = Effect.fnUntraced(function* (owner: Owner, ids: ReadonlyArray<string>) {
          const read = new Map<string, ReadMessage>()
          const accepted = yield* sql.run((q) => selectAcceptances(q, ids), DEADLINE)
          for (const row of accepted.filter((one) => isOf(one, owner))) {
            const view = acceptedView(row)
            read.set(view.id, { view, content: contentOf(yield* openAcceptance(row)) })
          }
          return read
        })

        const readAll = Effect.fnUntraced(function* (owner: Owner, ids: ReadonlyArray<string>) {
          const read = new Map<string, ReadMessage>()
          if (ids.length === 0) return read
          const projected = yield* sql.run((q) => selectProjected(q, ids), DEADLINE)
          for (const row of projected.filter((one) => one.is_shown && isOf(one, owner))) {
            const payload = yield* openPersonal(row)
            const view = projectedView(row, maskOf(payload))
            read.set(view.id, { view, content: contentOf(payload) })
          }
          const there = new Set(projected.map((row) => row.id))
          const missing = ids.filter((id) => !there.has(id))
          if (missing.length === 0) return read
          for (const [messageId, found] of yield* readAccepted(owner, missing)) read.set(messageId, found)
          return read
        })

        const gathered = yield* gather<ProjectedRow, StorageError>({
          load: (ids) =>
            Effect.map(
              sql.run((q) => selectProjected(q, ids), DEADLINE),
              (rows) => new Map(rows.map((row) => [row.id, row])),
            ),
          atOnce: STATEMENTS,
          most: GATHERED,
        })

        const read = Effect.fnUntraced(function* (owner: Owner, id: string) {
          const row = yield* gathered(id)
          if (row === null) return (yield* readAccepted(owner, [id])).get(encodeId('msg', id)) ?? null
          if (!row.is_shown || !isOf(row, owner)) return null
          const payload = yield* openPersonal(row)
          return { view: projectedView(row, maskOf(payload)), content: contentOf(payload) }
        })

        return { find, readAll, read }
      }),
    )
}
