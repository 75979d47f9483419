/**
 * The published Avro schemas: each version is a file
 * `packages/kafka/schemas/<Name>.v<version>.avsc`, with a fixed id in `ids.json`. A published
 * version never changes: `compatibility.ts` enforces it.
 */
import { readFileSync } from 'node:fs'
import type { MessageFact } from '@hub/domain'

/** The facts of messages. */
export const FACT_NAMES = [
  'MessageAccepted',
  'HandoverStarted',
  'HandoverRefused',
  'MessageSent',
  'MessageDelivered',
  'MessageUndelivered',
  'MessageRejected',
  'MessageExpired',
  'MessageSeen',
  'OpenMessageCarried',
] as const satisfies ReadonlyArray<MessageFact['type']>

/** The record types. They are the values of the header `type`. */
export const RECORD_NAMES = [
  ...FACT_NAMES,
  'OpenMessagesCarried',
  'ShardOpened',
  'BatchSealed',
  'SubscriptionChanged',
  'EventRecorded',
  'DeliveryReportReceived',
  'InboundMessageReceived',
  'OperatorAnswerReceived',
  'SealingKeyCreated',
  'RecipientErased',
  'DatabaseAccepted',
  'MessageOutcome',
] as const
export type RecordName = (typeof RECORD_NAMES)[number]

/** One published version of a record's schema. */
export interface SchemaVersion {
  readonly name: string
  /** 1, 2, … without gaps for each name. */
  readonly version: number
  /** The id in the Confluent wire format; unique for all names. */
  readonly id: number
  /** The result of `fingerprintOf` when the version was published. */
  readonly fingerprint: string
  readonly schema: AvroSchema
}

/** An Avro schema as JSON. */
export type AvroSchema = string | ReadonlyArray<AvroSchema> | { readonly [key: string]: unknown }

const folder = new URL('../../schemas/', import.meta.url)
const readJson = (file: string): unknown => JSON.parse(readFileSync(new URL(file, folder), 'utf8'))

/** The content of `ids.json`. */
export type SchemaIndex = Record<string, ReadonlyArray<{ version: number; id: number; fingerprint: string }>>

/** Every published version; the versions of a name in ascending order. */
export const SCHEMAS: ReadonlyArray<SchemaVersion> = Object.entries(
  readJson('ids.json') as SchemaIndex,
).flatMap(([name, versions]) =>
  versions.map(({ version, id, fingerprint }) => ({
    name,
    version,
    id,
    fingerprint,
    schema: readJson(`${name}.v${version}.avsc`) as AvroSchema,
  })),
)
