/**
 * A second, independent implementation of the projection: it builds every read model from the
 * records of the topics, message by message. It follows the contract and shares no code with the
 * projector or the domain, so that only an error made twice stays undetected. Pure.
 */
import { eventUuid, uuidOf } from './ids.ts'
import type { TopicRecord } from './decode-value.ts'
import type { Topics } from './read-topics.ts'

/** A row: its columns as text, or `null` for NULL. */
export type Row = Readonly<Record<string, string | null>>
/** The compared columns of `read.messages` that only the acceptance defines. */
type AcceptanceColumn =
  | 'account'
  | 'mode'
  | 'class'
  | 'recipient'
  | 'template'
  | 'sender'
  | 'client_ref'
  | 'batch_id'
  | 'parts'
  | 'price'
  | 'currency'
  | 'variables'
  | 'created_at'
  | 'number_range'
/** The other compared columns of `read.messages`. */
type StatusColumn =
  | 'updated_at'
  | 'status'
  | 'rank'
  | 'final'
  | 'reason_code'
  | 'attempts'
  | 'handed_over'
  | 'seen'
  | 'sent_at'
  | 'timed_out_at'
  | 'final_at'

/** One value for each compared column of `read.messages`. */
export type EachMessageColumn<Value> = Readonly<Record<AcceptanceColumn | StatusColumn, Value>>
/** The columns of a message that have a value without its acceptance. */
export type StatusColumns = Readonly<Record<StatusColumn, string | null>>

/** Rows by key. */
export type Table = ReadonlyMap<string, Row>

/** The content that an event of a message must have. */
export interface MessageEvent {
  /** The UUID of the event. */
  readonly id: string
  readonly type: string
  /** `data.object` of its body. */
  readonly object: Readonly<Record<string, unknown>>
  /** The batch of the message. Each of its events names it. */
  readonly batches: ReadonlyArray<string | null>
}

/**
 * The events of a message in their required order. A read receipt may follow anywhere after the
 * first event.
 */
interface MessageEvents {
  readonly account: string
  readonly mode: string
  readonly changes: ReadonlyArray<MessageEvent>
  readonly seen: MessageEvent | null
}

/** A closed batch, and the content of its `batch.completed`. */
export interface Completion {
  readonly id: string
  readonly account: string
  readonly mode: string
  readonly batch: string
  readonly createdAt: string
  readonly counts: Readonly<Record<string, number>>
  /**
   * Members that a late report has corrected. The counts at the close of the batch may contain
   * their earlier status.
   */
  readonly corrected: number
}

export interface ReferenceModels {
  readonly tables: Readonly<Record<TableName, Table>>
  readonly messageEvents: ReadonlyMap<string, MessageEvents>
  readonly completions: ReadonlyArray<Completion>
}

export const TABLES = [
  'messages',
  'operator_ids',
  'personal_data',
  'batches',
  'charges',
  'daily_stats',
  'hourly_stats',
  'range_stats',
] as const
export type TableName = (typeof TABLES)[number]

const FINAL = new Set(['delivered', 'undelivered', 'rejected', 'expired'])

interface Change {
  readonly status: string
  readonly reason: string | null
  readonly at: number
}

/** All records of one message. */
interface MessageRecords {
  readonly id: string
  /** Acceptances in the order of their lane. */
  readonly acceptances: Array<TopicRecord>
  /** Facts in log order, without void ones. */
  readonly facts: Array<TopicRecord>
}

const byPosition = (a: TopicRecord, b: TopicRecord): number =>
  a.partition === b.partition ? a.offset - b.offset : a.partition - b.partition

/** Removes void facts: facts with a lower epoch behind the fence of another member. */
const withoutVoid = (log: ReadonlyArray<TopicRecord>): ReadonlyArray<TopicRecord> => {
  const fences = new Map<number, number>()
  return [...log].sort(byPosition).filter(({ partition, type, value }) => {
    const fence = fences.get(partition) ?? 0
    if (type === 'ShardOpened') {
      fences.set(partition, Math.max(fence, Number(value['epoch'])))
      return false
    }
    return value['epoch'] == null || Number(value['epoch']) >= fence
  })
}

const groupByMessage = ({
  lanes,
  log,
}: Pick<Topics, 'lanes' | 'log'>): ReadonlyMap<string, MessageRecords> => {
  const recordsByMessage = new Map<string, MessageRecords>()
  const recordsOf = (id: string): MessageRecords => {
    const known = recordsByMessage.get(id)
    if (known !== undefined) return known
    const records = { id, acceptances: [], facts: [] }
    recordsByMessage.set(id, records)
    return records
  }
  for (const record of [...lanes].sort(byPosition))
    recordsOf(record.value['message_id']).acceptances.push(record)
  for (const record of withoutVoid(log)) {
    // The second one repeats what the log contains.
    if (record.type === 'BatchSealed' || record.type === 'OpenMessagesCarried') continue
    recordsOf(record.value['message_id']).facts.push(record)
  }
  return recordsByMessage
}

/** Returns the status that a fact sets, or `null` if it sets none. */
const changeOf = ({ type, value }: TopicRecord): Change | null => {
  const at = Number(value['at'])
  switch (type) {
    case 'MessageSent':
      return { status: 'sent', reason: null, at }
    case 'MessageDelivered':
      return { status: 'delivered', reason: null, at }
    case 'MessageUndelivered':
      return { status: 'undelivered', reason: value['reason'], at }
    case 'MessageRejected':
      return { status: 'rejected', reason: value['reason'], at }
    case 'MessageExpired':
      return { status: 'expired', reason: value['reason'], at }
    default:
      return null
  }
}

/**
 * Source: MSG-25, MSG-26: a final status stays. Only `dlr_timeout_local` may be corrected by a late
 * report.
 */
const replaces = (next: Change, last: Change): boolean => {
  if (last.status === 'accepted') return true
  if (last.status === 'sent') return next.status !== 'sent'
  return last.reason === 'dlr_timeout_local' && (next.status === 'delivered' || next.status === 'undelivered')
}

const isFree = ({ reason, status }: Change): boolean =>
  status === 'rejected' || reason === 'ttl_expired_before_submit'

const rankOf = ({ reason, status }: Change): number => {
  if (status === 'accepted') return 0
  if (status === 'sent') return 1
  return reason === 'dlr_timeout_local' ? 2 : 3
}

const text = (value: unknown): string => String(value)
const iso = (ms: number): string => new Date(ms).toISOString()

interface MessageState {
  readonly changes: ReadonlyArray<Change>
  readonly attempts: number
  readonly handedOver: boolean
  readonly seen: boolean
  readonly updatedAt: number
  readonly operatorIds: ReadonlyArray<{ readonly operator: string; readonly id: string; readonly at: number }>
}

/** Facts that prove that a claimed message was submitted. */
const SUBMITTED = new Set([
  'MessageSent',
  'MessageDelivered',
  'MessageUndelivered',
  'MessageRejected',
  'MessageExpired',
])

/** Folds the facts of a message. `acceptedAt` is `null` if only the log knows the message. */
const stateOf = (acceptedAt: number | null, facts: ReadonlyArray<TopicRecord>): MessageState => {
  const changes: Array<Change> = [{ status: 'accepted', reason: null, at: acceptedAt ?? 0 }]
  const operatorIds: Array<MessageState['operatorIds'][number]> = []
  /** The times of the facts that changed the row. */
  const changedAt = [acceptedAt ?? 0]
  let claims = 0
  let isClaimOpen = false
  let attempts = 0
  let handedOver = false
  let seen = false
  for (const fact of facts) {
    const { type, value } = fact
    const counted = attempts
    if (type === 'HandoverStarted' && value['attempt'] > claims) {
      claims = value['attempt']
      isClaimOpen = true
      attempts = claims - 1 - (value['unsubmitted'] ?? 0)
    } else if (type === 'HandoverRefused' && (value['attempt'] > claims || isClaimOpen)) {
      if (value['attempt'] >= claims) {
        claims = value['attempt']
        isClaimOpen = false
        attempts = claims - (value['unsubmitted'] ?? 0)
      }
    } else if (isClaimOpen && SUBMITTED.has(type) && value['reason'] !== 'ttl_expired_before_submit') {
      isClaimOpen = false
      attempts += 1
    }
    if (attempts !== counted) changedAt.push(Number(value['at']))
    if (type === 'MessageSeen' && !seen) {
      seen = true
      changedAt.push(Number(value['at']))
    }
    if (type === 'MessageSent' || type === 'OpenMessageCarried') {
      const at = Number(type === 'MessageSent' ? value['at'] : value['sent_at'])
      for (const id of value['operator_ids']) operatorIds.push({ operator: value['operator'], id, at })
    }
    // These facts prove that the operator received the message.
    if (type === 'MessageSent' || type === 'MessageDelivered') handedOver = true
    if (type === 'MessageExpired' && value['reason'] !== 'ttl_expired_before_submit') handedOver = true
    const change = changeOf(fact)
    if (change !== null && replaces(change, changes.at(-1)!)) {
      changes.push(change)
      changedAt.push(change.at)
    }
  }
  return { changes, attempts, handedOver, seen, updatedAt: Math.max(...changedAt), operatorIds }
}

/** Converts an amount to hundredths of the currency. */
const unitsOf = (amount: string): number => Math.round(Number(amount) * 100)
const amountOf = (units: number): string => (units / 100).toFixed(2)

/** Adds to a counter. */
const addTo = (counts: Record<string, number>, name: string, by = 1): void => {
  counts[name] = (counts[name] ?? 0) + by
}

interface BatchSum {
  readonly counts: Record<string, number>
  account: string
  mode: string
  corrected: number
  seal: Readonly<Record<string, any>> | null
}

/** Builds all read models from the topics. */
export const buildReference = (topics: Pick<Topics, 'lanes' | 'log'>): ReferenceModels => {
  const tables = Object.fromEntries(TABLES.map((name) => [name, new Map<string, Row>()])) as Record<
    TableName,
    Map<string, Row>
  >
  const messageEvents = new Map<string, MessageEvents>()
  const stats = {
    daily_stats: new Map<string, Record<string, number>>(),
    hourly_stats: new Map<string, Record<string, number>>(),
    range_stats: new Map<string, Record<string, number>>(),
  }
  const batches = new Map<string, BatchSum>()
  const batchOf = (id: string, account: string, mode: string): BatchSum => {
    const known = batches.get(id)
    if (known !== undefined) return known
    const sum = { counts: {}, account, mode, corrected: 0, seal: null }
    batches.set(id, sum)
    return sum
  }

  for (const { acceptances, facts, id } of groupByMessage(topics).values()) {
    const uuid = uuidOf(id)
    const acceptance = acceptances[0]?.value ?? null
    const state = stateOf(acceptance === null ? null : Number(acceptance['at']), facts)
    const last = state.changes.at(-1)!
    for (const { at, id: operatorId, operator } of state.operatorIds) {
      const key = `${operator} ${operatorId} ${uuid}`
      if (!tables.operator_ids.has(key)) tables.operator_ids.set(key, { sent_at: text(at) })
    }
    const timeOf = (rank: number): string | null => {
      const change = state.changes.find((one) => rankOf(one) === rank)
      return change === undefined ? null : text(change.at)
    }
    const common: StatusColumns = {
      updated_at: text(state.updatedAt),
      status: last.status,
      rank: text(rankOf(last)),
      final: text(FINAL.has(last.status)),
      reason_code: last.reason,
      attempts: text(state.attempts),
      handed_over: text(state.handedOver),
      seen: text(state.seen),
      sent_at: timeOf(1),
      timed_out_at: timeOf(2),
      final_at: timeOf(3),
    }
    if (acceptance === null) {
      // The acceptance is not projected yet, so the row is invisible.
      tables.messages.set(uuid, { account: null, ...common })
      continue
    }

    const { account, class: messageClass, mode, template } = acceptance as Record<string, string>
    // A second publication never changes the batch.
    const batch: string | null = acceptance['batch'] ?? null
    const { currency } = acceptance['price']
    // Test messages cost nothing.
    const charged: string = mode === 'test' ? '0.00' : acceptance['price'].amount
    const price = isFree(last) ? '0.00' : charged
    const accountUuid = uuidOf(account!)
    const acceptedAt = Number(acceptance['at'])
    const numberRange: string | null = acceptance['number_range'] ?? null
    const row: EachMessageColumn<string | null> = {
      account: accountUuid,
      mode: mode!,
      class: messageClass!,
      recipient: acceptance['recipient'],
      template: template!,
      sender: acceptance['sender'],
      client_ref: acceptance['client_ref'],
      batch_id: batch === null ? null : uuidOf(batch),
      parts: text(acceptance['parts']),
      price,
      currency,
      variables: acceptance['variables'].join(','),
      created_at: text(acceptedAt),
      number_range: numberRange,
      ...common,
    }
    tables.messages.set(uuid, row)
    tables.personal_data.set(uuid, { recipient: acceptance['recipient'], created_at: text(acceptedAt) })

    if (mode === 'live') {
      const line = {
        account: accountUuid,
        period: `${iso(acceptedAt).slice(0, 7)}-01`,
        amount: charged,
        currency,
      }
      tables.charges.set(`${uuid} charge`, { ...line, created_at: text(acceptedAt) })
      const free = state.changes.find(isFree)
      if (free !== undefined) {
        tables.charges.set(`${uuid} reversal`, { ...line, created_at: text(free.at) })
      }
    }

    const day = iso(acceptedAt).slice(0, 10)
    const hour = text(acceptedAt - (acceptedAt % 3_600_000))
    for (const [table, key] of [
      [stats.daily_stats, [day, accountUuid, mode, messageClass, template, currency].join(' ')],
      [stats.hourly_stats, [hour, accountUuid, mode, last.reason ?? '', currency].join(' ')],
      ...(numberRange === null
        ? []
        : [
            [
              stats.range_stats,
              [hour, accountUuid, mode, messageClass, numberRange, last.reason ?? '', currency].join(' '),
            ] as const,
          ]),
    ] as const) {
      const counts = table.get(key) ?? {}
      table.set(key, counts)
      addTo(counts, 'accepted')
      if (state.handedOver) addTo(counts, 'sent')
      if (FINAL.has(last.status)) addTo(counts, last.status)
      addTo(counts, 'parts', acceptance['parts'])
      addTo(counts, 'units', unitsOf(price))
    }

    if (batch !== null) {
      const into = batchOf(batch, account!, mode!)
      addTo(into.counts, 'members')
      if (FINAL.has(last.status)) {
        addTo(into.counts, 'final')
        addTo(into.counts, last.status)
      }
      if (state.changes.filter(({ status }) => FINAL.has(status)).length > 1) into.corrected += 1
    }

    const eventOf = (type: string, change: Change): MessageEvent => ({
      id: eventUuid(id, type),
      type,
      batches: [batch],
      object: {
        id,
        object: 'message',
        status: change.status,
        final: FINAL.has(change.status),
        class: messageClass,
        reason_code: change.reason,
        client_ref: acceptance['client_ref'],
        template,
        created_at: iso(acceptedAt),
        parts: acceptance['parts'],
        price: { amount: isFree(change) ? '0.00' : charged, currency },
      },
    })
    messageEvents.set(id, {
      account: accountUuid,
      mode: mode!,
      changes: state.changes.map((change) => eventOf(`message.${change.status}`, change)),
      // A read receipt reports a delivered message.
      seen: state.seen ? eventOf('message.seen', { status: 'delivered', reason: null, at: 0 }) : null,
    })
  }

  for (const { type, value } of [...topics.log].sort(byPosition)) {
    if (type !== 'BatchSealed') continue
    const sum = batchOf(value['batch'], value['account'], value['mode'])
    // Only the first seal counts.
    sum.seal ??= value
  }
  const completions: Array<Completion> = []
  for (const [id, { account, corrected, counts, mode, seal }] of batches) {
    const count = (name: string): number => counts[name] ?? 0
    const closed = seal !== null && count('final') >= seal['accepted'] && count('final') === count('members')
    tables.batches.set(uuidOf(id), {
      account: uuidOf(account),
      mode,
      created_at: seal === null ? null : text(Number(seal['created_at'])),
      sealed_at: seal === null ? null : text(Number(seal['at'])),
      total: seal === null ? null : text(seal['total']),
      accepted: seal === null ? null : text(seal['accepted']),
      duplicate: seal === null ? null : text(seal['duplicate']),
      rejected: seal === null ? null : text(seal['rejected']),
      members: text(count('members')),
      final: text(count('final')),
      delivered: text(count('delivered')),
      undelivered: text(count('undelivered')),
      rejected_by_operator: text(count('rejected')),
      expired: text(count('expired')),
      closed: text(closed),
    })
    if (!closed) continue
    completions.push({
      id: eventUuid(id, 'batch.completed'),
      account: uuidOf(account),
      mode,
      batch: id,
      createdAt: iso(Number(seal['created_at'])),
      counts: {
        total: seal['total'],
        accepted: seal['accepted'],
        duplicate: seal['duplicate'],
        rejected: seal['rejected'] + count('rejected'),
        delivered: count('delivered'),
        undelivered: count('undelivered'),
        expired: count('expired'),
      },
      corrected,
    })
  }
  for (const name of ['daily_stats', 'hourly_stats', 'range_stats'] as const) {
    for (const [key, { units = 0, ...counts }] of stats[name]) {
      tables[name].set(key, {
        ...Object.fromEntries(
          ['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired', 'parts'].map((field) => [
            field,
            text(counts[field] ?? 0),
          ]),
        ),
        price: amountOf(units),
      })
    }
  }
  return { tables, messageEvents, completions }
}
