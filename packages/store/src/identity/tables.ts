/** Statements of `command.hub_identity` and `command.hub_processes`. */
import type { Queries } from '../sql.ts'
import type { RecordedKey } from '../key-providers/key-provider.port.ts'
import type { KafkaIdentity, KnownIdentity } from './judge.ts'

/** The key of the advisory lock: any number, the same in every process. */
const LOCK = 4_907_226

/** A process that was not seen for this long has ended: three missed checks. */
export const RUNNING_SECONDS = 30

/**
 * `cluster prefix partitions`: neither a cluster id nor a prefix contains a space. Earlier versions wrote, and read,
 * only the first two.
 */
const kafkaValue = ({ cluster, partitions, prefix }: KafkaIdentity): string =>
  `${cluster} ${prefix}${partitions === null ? '' : ` ${partitions}`}`
const kafkaOf = (value: string): KafkaIdentity => {
  const [cluster = '', prefix = '', partitions] = value.split(' ')
  return { cluster, prefix, partitions: partitions === undefined ? null : Number(partitions) }
}

/** Until the end of the transaction, no other process reads or changes the identity of the hub. */
export const lockIdentity = (q: Queries) => q`SELECT pg_advisory_xact_lock(${LOCK})`

/**
 * Names the database. A standby has the same name as its primary; a restored dump, a clone inside the
 * server, and a database of another server have others. `null` if the role may not read it.
 */
export const readDatabase = async (q: Queries): Promise<string | null> => {
  const [may] = await q<{ read: boolean }[]>`
    SELECT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS read`
  if (may?.read !== true) return null
  const [row] = await q<{ database: string }[]>`
    SELECT system_identifier::text || '/' || oid::text AS database
      FROM pg_catalog.pg_control_system(), pg_catalog.pg_database WHERE datname = current_database()`
  return row?.database ?? null
}

/** `check value`, or `check value wrapped check key` in base64. Neither contains a space. */
const recordedValue = ({ checkValue, wrappedCheckKey }: RecordedKey): string =>
  wrappedCheckKey === null ? checkValue : `${checkValue} ${Buffer.from(wrappedCheckKey).toString('base64')}`
const recordedKeyOf = (value: string): RecordedKey => {
  const [checkValue = '', wrapped] = value.split(' ')
  return { checkValue, wrappedCheckKey: wrapped === undefined ? null : Buffer.from(wrapped, 'base64') }
}

export const readMasterKeys = async (q: Queries): Promise<ReadonlyArray<RecordedKey>> => {
  const rows = await q<{ value: string }[]>`
    SELECT value FROM command.hub_identity WHERE kind = 'master_key' ORDER BY value`
  return rows.map(({ value }) => recordedKeyOf(value))
}

/** Replaces the wrapped check key of a master key. Returns false if another process has changed it. */
export const writeCheckKey = async (q: Queries, key: RecordedKey, wrapped: Uint8Array): Promise<boolean> => {
  const written = await q`
    UPDATE command.hub_identity SET value = ${recordedValue({ ...key, wrappedCheckKey: wrapped })}
     WHERE kind = 'master_key' AND value = ${recordedValue(key)}`
  return written.count > 0
}

/** `self`: the id of the process that asks. */
export const readIdentity = async (q: Queries, self: string | null): Promise<KnownIdentity> => {
  const rows = await q<{ kind: string; value: string; in_use: boolean }[]>`
    SELECT kind, value, in_use FROM command.hub_identity`
  const processes = await q<{ app: string; masterKeys: string[] }[]>`
    SELECT app, master_keys AS "masterKeys" FROM command.hub_processes
     WHERE seen_at > now() - make_interval(secs => ${RUNNING_SECONDS}) AND id IS DISTINCT FROM ${self}::uuid`
  const valueOf = (kind: string) => rows.find((row) => row.kind === kind)?.value ?? null
  const kafka = valueOf('kafka')
  return {
    masterKeys: new Map(
      rows
        .filter(({ kind }) => kind === 'master_key')
        .map(({ in_use, value }) => [recordedKeyOf(value).checkValue, in_use]),
    ),
    numberHashSecret: valueOf('number_hash_secret'),
    kafka: kafka === null ? null : kafkaOf(kafka),
    database: await readDatabase(q),
    processes,
  }
}

/** Records a value of the hub that is not known yet. */
export const define = (q: Queries, kind: 'number_hash_secret', value: string) => q`
  INSERT INTO command.hub_identity (kind, value) VALUES (${kind}, ${value}) ON CONFLICT DO NOTHING`

export const writeKafka = async (q: Queries, kafka: KafkaIdentity): Promise<void> => {
  await q`DELETE FROM command.hub_identity WHERE kind = 'kafka'`
  await q`INSERT INTO command.hub_identity (kind, value) VALUES ('kafka', ${kafkaValue(kafka)})`
}

export const writeMasterKey = async (q: Queries, key: RecordedKey, inUse: boolean): Promise<void> => {
  // The wrapped check key of a known key may have changed.
  const known = await q`
    UPDATE command.hub_identity SET in_use = in_use OR ${inUse}
     WHERE kind = 'master_key' AND split_part(value, ' ', 1) = ${key.checkValue}`
  if (known.count > 0) return
  await q`
    INSERT INTO command.hub_identity (kind, value, in_use) VALUES ('master_key', ${recordedValue(key)}, ${inUse})`
}

/** The other keys in use are not needed any more. A key that was only announced stays. */
export const retireMasterKeys = async (q: Queries, current: string): Promise<number> => {
  const retired = await q`
    DELETE FROM command.hub_identity WHERE kind = 'master_key' AND in_use AND split_part(value, ' ', 1) <> ${current}`
  return retired.count
}

export const reportProcess = async (
  q: Queries,
  {
    app,
    id,
    masterKeys,
  }: { readonly id: string; readonly app: string; readonly masterKeys: ReadonlyArray<string> },
): Promise<void> => {
  await q`
    INSERT INTO command.hub_processes (id, app, master_keys, seen_at)
    VALUES (${id}, ${app}, ${[...masterKeys]}::text[], now())
    ON CONFLICT (id) DO UPDATE SET seen_at = now()`
  await q`DELETE FROM command.hub_processes WHERE seen_at < now() - interval '1 hour'`
}

export const forgetProcess = (q: Queries, id: string) => q`DELETE FROM command.hub_processes WHERE id = ${id}`

/** The first bytes of the ciphertexts that a master key has made. */
export const readKeyPrefixes = async (q: Queries, length: number): Promise<ReadonlyArray<Buffer>> => {
  const rows = await q<{ prefix: Buffer }[]>`
    SELECT DISTINCT substring(wrapped FROM 1 FOR ${length}::int) AS prefix FROM command.sealing_keys
    UNION SELECT DISTINCT substring(secret FROM 1 FOR ${length}::int) FROM webhooks.endpoints
           WHERE octet_length(secret) > 0`
  return rows.map(({ prefix }) => prefix)
}
