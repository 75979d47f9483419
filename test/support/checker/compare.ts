/**
 * Compares the topics with the live tables, and returns one line for each difference. A line names
 * table, key and column. It shows no value that could identify a client or a recipient. Pure.
 */
import type { JournalRow, LiveTables } from './live-tables.ts'
import type { MessageEvent, ReferenceModels, Row, Table } from './reference-projection.ts'
import { TABLES } from './reference-projection.ts'
import { uuidOf } from './ids.ts'
import type { TopicRecord } from './decode-value.ts'
import type { Topics } from './read-topics.ts'

/** Columns whose values are not shown. */
const HIDDEN_COLUMNS = new Set(['recipient', 'client_ref', 'variables'])

const show = (column: string, value: string | null | undefined): string =>
  HIDDEN_COLUMNS.has(column) ? 'another value' : value === undefined ? 'no such column' : String(value)

const compareRow = (label: string, expected: Row, found: Row): ReadonlyArray<string> =>
  Object.entries(expected).flatMap(([column, value]) =>
    found[column] === value
      ? []
      : [`${label}: ${column} is ${show(column, found[column])}, the topics say ${show(column, value)}`],
  )

/** Compares two tables row by row, in both directions. */
export const compareTable = (name: string, expected: Table, found: Table): ReadonlyArray<string> => {
  const lines: Array<string> = []
  for (const [key, row] of expected) {
    const there = found.get(key)
    const label = `read.${name} ${key}`
    if (there === undefined) lines.push(`${label}: is missing`)
    else lines.push(...compareRow(label, row, there))
  }
  for (const key of found.keys()) {
    if (!expected.has(key)) lines.push(`read.${name} ${key}: no record explains it`)
  }
  return lines
}

/**
 * Compares the event journal with `hub.webhooks.v1`: the topic has exactly the events after the
 * first subscription of their account and mode, and equal records for repeated events.
 */
const comparePublished = (
  webhooks: ReadonlyArray<TopicRecord>,
  { journal, subscribedAfter }: Pick<LiveTables, 'journal' | 'subscribedAfter'>,
): ReadonlyArray<string> => {
  const lines: Array<string> = []
  const published = new Map<string, Row>()
  for (const { type, value } of webhooks) {
    if (type !== 'EventRecorded') continue
    const id = uuidOf(value['event'])
    const row = {
      account: uuidOf(value['account']),
      mode: String(value['mode']),
      sequence: String(value['sequence']),
      type: String(value['event_type']),
      created_at: String(Number(value['created_at'])),
      body: String(value['body']),
    }
    const before = published.get(id)
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(row)) {
      lines.push(`hub.webhooks.v1: has two records with different content for ${id}`)
    }
    published.set(id, row)
  }
  const seen = new Set<string>()
  for (const row of journal) {
    seen.add(row.id)
    const record = published.get(row.id)
    const label = `read.events ${row.id}`
    const after = subscribedAfter.get(`${row.account} ${row.mode}`) ?? Number.POSITIVE_INFINITY
    if (record === undefined) {
      if (row.sequence > after) lines.push(`${label}: was not published`)
      continue
    }
    if (row.sequence <= after) lines.push(`${label}: was published without a subscription`)
    const expected = {
      account: row.account,
      mode: row.mode,
      sequence: String(row.sequence),
      type: row.type,
      created_at: String(row.createdAt),
    }
    lines.push(...compareRow(label, expected, record))
    if (record['body'] !== row.body) lines.push(`${label}: body differs from the published one`)
  }
  for (const id of published.keys()) if (!seen.has(id)) lines.push(`read.events ${id}: is missing`)
  return lines
}

/**
 * Checks each journal: sequence numbers from 1 without a gap, ascending timestamps, and a journal
 * head with the last sequence number.
 */
const compareSequences = ({
  heads,
  journal,
}: Pick<LiveTables, 'heads' | 'journal'>): ReadonlyArray<string> => {
  const lines: Array<string> = []
  const ends = new Map<string, { sequence: number; createdAt: number }>()
  for (const { account, createdAt, id, mode, sequence } of journal) {
    const key = `${account} ${mode}`
    const end = ends.get(key) ?? { sequence: 0, createdAt: 0 }
    if (sequence !== end.sequence + 1) {
      lines.push(`read.events ${id}: has sequence ${sequence} after sequence ${end.sequence}`)
    }
    if (createdAt < end.createdAt) lines.push(`read.events ${id}: was recorded before its predecessor`)
    ends.set(key, { sequence, createdAt })
  }
  for (const key of new Set([...ends.keys(), ...heads.keys()])) {
    const [head, end] = [heads.get(key) ?? 0, ends.get(key)?.sequence ?? 0]
    if (head !== end) lines.push(`read.event_heads ${key}: sequence is ${head}, the journal ends at ${end}`)
  }
  return lines
}

/** Serialises JSON with sorted names, so that only the content counts. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )

const ENVELOPE = ['created_at', 'data', 'id', 'mode', 'object', 'type'].join()

/** Checks the envelope of an event against its row, and returns its `data.object`. */
const checkEnvelope = (row: JournalRow): { readonly object: any; readonly lines: ReadonlyArray<string> } => {
  const body = JSON.parse(row.body)
  const lines: Array<string> = []
  const label = `read.events ${row.id}`
  if (Object.keys(body).toSorted().join() !== ENVELOPE)
    lines.push(`${label}: its envelope has other fields than an event`)
  if (body.object !== 'event' || body.type !== row.type || body.mode !== row.mode) {
    lines.push(`${label}: its envelope differs from its row`)
  }
  if (uuidOf(body.id) !== row.id) lines.push(`${label}: its body has another id`)
  if (body.created_at !== new Date(row.createdAt).toISOString()) {
    lines.push(`${label}: its body has another created_at`)
  }
  return { object: body.data?.object, lines }
}

const compareEvent = (
  { batches, object, type }: MessageEvent,
  owner: { readonly account: string; readonly mode: string },
  row: JournalRow,
): ReadonlyArray<string> => {
  const label = `read.events ${row.id}`
  const { lines, object: found } = checkEnvelope(row)
  const wrong = [...lines]
  if (row.type !== type) wrong.push(`${label}: type is ${row.type}, the topics say ${type}`)
  if (row.account !== owner.account || row.mode !== owner.mode) {
    wrong.push(`${label}: is in the journal of another account or mode`)
  }
  const { batch, ...rest } = found
  if (!batches.includes(batch)) wrong.push(`${label}: names another batch`)
  for (const name of new Set([...Object.keys(object), ...Object.keys(rest)])) {
    if (canonical(object[name]) !== canonical(rest[name])) {
      wrong.push(`${label} (${type}): ${name} differs from the topics`)
    }
  }
  return wrong
}

/**
 * Checks that each expected event exists once, has the content that the records imply, and follows
 * the earlier events of its message.
 */
const compareContent = (
  reference: ReferenceModels,
  journal: ReadonlyArray<JournalRow>,
): ReadonlyArray<string> => {
  const lines: Array<string> = []
  const rows = new Map<string, JournalRow>()
  for (const row of journal) {
    if (rows.has(row.id)) lines.push(`read.events ${row.id}: exists twice`)
    rows.set(row.id, row)
  }
  const expectedIds = new Set<string>()
  const findRow = (id: string, label: string): JournalRow | null => {
    expectedIds.add(id)
    const row = rows.get(id)
    if (row === undefined) lines.push(`read.events ${id}: ${label} is missing`)
    return row ?? null
  }

  for (const [message, story] of reference.messageEvents) {
    let lastSequence = 0
    let first = 0
    for (const event of story.changes) {
      const row = findRow(event.id, `${event.type} of ${message}`)
      if (row === null) continue
      lines.push(...compareEvent(event, story, row))
      if (row.sequence <= lastSequence)
        lines.push(`read.events ${row.id}: ${event.type} of ${message} is too early`)
      lastSequence = row.sequence
      if (event.type === 'message.accepted') first = row.sequence
    }
    if (story.seen === null) continue
    const row = findRow(story.seen.id, `message.seen of ${message}`)
    if (row === null) continue
    lines.push(...compareEvent(story.seen, story, row))
    if (row.sequence <= first) lines.push(`read.events ${row.id}: message.seen of ${message} is too early`)
  }

  for (const { account, batch, corrected, counts, createdAt, id, mode } of reference.completions) {
    const row = findRow(id, `batch.completed of ${batch}`)
    if (row === null) continue
    const label = `read.events ${id} (batch.completed)`
    const { lines: wrong, object } = checkEnvelope(row)
    lines.push(...wrong)
    if (row.account !== account || row.mode !== mode)
      lines.push(`${label}: is in the journal of another account or mode`)
    if (object.id !== batch || object.closed !== true || object.created_at !== createdAt) {
      lines.push(`${label}: describes another batch, or an open one`)
    }
    for (const [name, count] of Object.entries(counts)) {
      const published = object.counts[name]
      // A late delivery report moves a message from expired to another count.
      const slack = ['expired', 'delivered', 'undelivered'].includes(name) ? corrected : 0
      if (Math.abs(published - count) > slack)
        lines.push(`${label}: ${name} is ${published}, the topics say ${count}`)
    }
  }

  for (const { id, type } of journal) {
    if (expectedIds.has(id)) continue
    if (type.startsWith('message.') || type === 'batch.completed') {
      lines.push(`read.events ${id}: no record explains this ${type}`)
    }
  }
  return lines
}

/**
 * Returns all differences between records and tables. The result is empty if the read models are
 * correct.
 */
export const differences = (
  topics: Topics,
  reference: ReferenceModels,
  live: LiveTables,
): ReadonlyArray<string> => [
  // Retention has removed no record of these topics yet, so offsets and record counts agree.
  ...(live.applied === topics.lanes.length + topics.log.length
    ? []
    : [
        `read.checkpoints: ${live.applied} records are applied, the topics contain ${topics.lanes.length + topics.log.length}`,
      ]),
  ...[...topics.deadLetters].flatMap(([topic, count]) =>
    count === 0 ? [] : [`${topic}: contains ${count} records`],
  ),
  ...TABLES.flatMap((name) => compareTable(name, reference.tables[name], live.tables[name])),
  ...comparePublished(topics.webhooks, live),
  ...compareSequences(live),
  ...compareContent(reference, live.journal),
]
