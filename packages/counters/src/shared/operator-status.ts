/**
 * The operator statuses: what each dispatcher sees of its SMS operators, for hub staff. Each dispatcher
 * writes its own entry of one shared text. So a reader needs one read, and no address of a process.
 */
import { Effect, Option, Schema } from 'effect'
import type { CountersUnavailable } from '../port.ts'
import type { SharedTextsShape } from './port.ts'

export const OperatorStatus = Schema.Struct({
  operator: Schema.String,
  /** Empty: the operator has no binds. */
  binds: Schema.Array(
    Schema.Struct({
      role: Schema.String,
      established: Schema.Number,
      /** As many as are configured. */
      wanted: Schema.Number,
      /** When `established` changed last, ms since the epoch. */
      since: Schema.Number,
    }),
  ),
  /** Parts per second that the whole hub may submit. `null`: no limit is known. */
  rate: Schema.NullOr(Schema.Number),
  /** The configured part of `rate`. */
  configured: Schema.NullOr(Schema.Number),
  /** Parts per second that this dispatcher had answered since its last report. */
  passed: Schema.Number,
  throttled: Schema.Number,
})
export type OperatorStatus = typeof OperatorStatus.Type

const Entry = Schema.Struct({
  host: Schema.String,
  /** The time of the report by the clock of the store, ms. */
  at: Schema.Number,
  operators: Schema.Array(OperatorStatus),
})

/** A dispatcher with its operators. */
export type DispatcherStatus = typeof Entry.Type

const Entries = Schema.fromJsonString(Schema.Record(Schema.String, Entry))

/** It contains the version of the format: two versions run side by side during a deployment. */
const NAME = 'operator-status:1'

/** The time between two reports of a dispatcher. Each costs two small calls of Redis. */
export const OPERATOR_STATUS_MS = 5000

/** A dispatcher that has missed three reports has stopped, or cannot reach Redis. */
const GONE_MS = 4 * OPERATOR_STATUS_MS

const entriesIn = (text: string | null, now: number): Readonly<Record<string, DispatcherStatus>> => {
  if (text === null) return {}
  const entries = Option.getOrElse(Schema.decodeUnknownOption(Entries)(text), () => ({}))
  return Object.fromEntries(Object.entries(entries).filter(([, { at }]) => at > now - GONE_MS))
}

/** Writes the entry of a dispatcher, and removes those of dispatchers that have stopped. */
export const recordOperatorStatus = (
  { change }: Pick<SharedTextsShape, 'change'>,
  dispatcher: { readonly member: string; readonly host: string },
  operators: ReadonlyArray<OperatorStatus>,
): Effect.Effect<void, CountersUnavailable> =>
  change(NAME, GONE_MS, (text, now) => ({
    text: JSON.stringify({
      ...entriesIn(text, now),
      [dispatcher.member]: { host: dispatcher.host, at: now, operators },
    }),
    result: undefined,
  }))

/** The dispatchers that have reported lately. */
export const readOperatorStatus = ({
  read,
}: Pick<SharedTextsShape, 'read'>): Effect.Effect<ReadonlyArray<DispatcherStatus>, CountersUnavailable> =>
  Effect.map(read(NAME), ({ now, text }) => Object.values(entriesIn(text, now)))
