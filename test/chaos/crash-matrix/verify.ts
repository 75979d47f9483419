/** The independent checks of a cell: what its clients, the operator and its receiver have seen. */
import { decodeId, encodeId } from '@hub/domain'
import { decodeMessageOutcome, topicNames } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Result } from 'effect'
import { checkReadModels, waitUntilIdle } from '../../support/checker/checker.ts'
import { readHandoverHistory } from '../../support/handover-history.ts'
import { operatorStatistics } from '../../support/hub.ts'
import { readTopic } from '../../support/read-topic.ts'
import { eventsIn } from '../../support/webhook-receiver.ts'
import { PRICE, type Sent, SPEND_LIMIT, type Traffic } from './traffic.ts'
import type { World } from './world.ts'

/** Only ends a wait that hangs: a rebalance, and some retries on a busy machine. */
const WITHIN = { withinMs: 180_000, everyMs: 500 }

const EVENT_TYPES = ['message.accepted', 'message.delivered', 'message.sent'].join()
/** Of a message whose submit the operator has not received. */
const TYPES_WITHOUT_REPORT = ['message.accepted', 'message.sent'].join()

const TEXTS = { otp: 'Code 4821', service: 'Заказ A-17 готов' } as const

/** How often the operator has received a live message. */
const timesReceived = async (
  world: World,
  { messageClass, text = TEXTS[messageClass], to }: Pick<Sent, 'messageClass' | 'to' | 'text'>,
): Promise<number> => {
  const query = new URLSearchParams({ to, text }).toString()
  const found = await fetch(`${world.hub.describe().operator_url}/submissions?${query}`)
  if (found.status === 404) return 0
  return ((await found.json()) as { readonly times: number }).times
}

interface MessageRow {
  readonly id: string
  readonly mode: 'live' | 'test'
  readonly status: string
  readonly final: boolean
}

const requireThat = (isTrue: boolean, violation: () => string): void => {
  if (!isTrue) throw new Error(violation())
}

/** Of a list, as many as a message should show. */
const some = (list: Iterable<unknown>): string => [...list].slice(0, 5).join(', ')

/**
 * Each accepted message of an account has a final status, unless the operator never received it.
 * Returns the statuses. `sends`: the accepted messages, by id.
 */
const checkStatuses = (
  world: World,
  account: string,
  sends: ReadonlyMap<string, Pick<Sent, 'messageClass' | 'to' | 'text'>>,
): Promise<ReadonlyMap<string, string>> =>
  eventually(async () => {
    const rows = await world.sql<ReadonlyArray<MessageRow>>`
      SELECT id, mode, status, final FROM read.messages WHERE account = ${account}`
    const found = new Map(rows.map((row) => [encodeId('msg', row.id), row]))
    const lost = [...sends.keys()].filter((id) => !found.has(id))
    requireThat(lost.length === 0, () => `${lost.length} acknowledged sends are lost: ${some(lost)}`)
    const statuses = new Map<string, string>()
    for (const [id, { final, mode, status }] of found) {
      const sent = sends.get(id)
      if (sent === undefined) throw new Error(`no client has an answer for ${id}`)
      if (!final) {
        const isUnknown = mode === 'live' && status === 'sent' && (await timesReceived(world, sent)) === 0
        requireThat(isUnknown, () => `${id} (${mode}) has no final status: it is ${status}`)
      } else requireThat(status === 'delivered', () => `${id} (${mode}) is ${status}`)
      statuses.set(id, status)
    }
    return statuses
  }, WITHIN)

/** Each reference identifies one message. Returns the messages by id. */
const messagesOf = ({ sends }: Traffic): ReadonlyMap<string, Sent> => {
  const byId = new Map<string, Sent>()
  for (const [ref, sent] of sends) {
    requireThat(sent.ids.size === 1, () => `${ref} identifies ${sent.ids.size} messages: ${some(sent.ids)}`)
    byId.set([...sent.ids][0]!, sent)
  }
  requireThat(byId.size === sends.size, () => 'two references have the same message')
  return byId
}

/** Each event is in the journal once, and the receiver has it. */
const checkEvents = async (
  world: World,
  traffic: Traffic,
  path: string,
  statuses: ReadonlyMap<string, string>,
): Promise<void> => {
  const events = await eventually(async () => {
    const rows = await world.sql<
      ReadonlyArray<{ id: string; mode: string; sequence: number; type: string; message: string | null }>
    >`
      SELECT id, mode, sequence::float8, type, body::jsonb #>> '{data,object,id}' AS message
        FROM read.events WHERE account = ${traffic.account.uuid} ORDER BY mode, sequence`
    const types = new Map<string, Array<string>>()
    for (const { message, type } of rows) {
      if (!type.startsWith('message.') || message === null) continue
      types.set(message, [...(types.get(message) ?? []), type])
    }
    for (const [id, status] of statuses) {
      const all = (types.get(id) ?? []).toSorted().join()
      const expected = status === 'sent' ? TYPES_WITHOUT_REPORT : EVENT_TYPES
      requireThat(all === expected, () => `${id} (${status}) has the events ${all}`)
    }
    return rows
  }, WITHIN)
  for (const mode of ['live', 'test']) {
    for (const [i, { sequence }] of events.filter((event) => event.mode === mode).entries()) {
      requireThat(sequence === i + 1, () => `the journal (${mode}) has sequence ${sequence} after ${i}`)
    }
  }
  await eventually(() => {
    const requests = world.receiver.received.filter((request) => request.path === path)
    const delivered = new Set(eventsIn(requests).map(({ id }) => id as string))
    const missing = events.filter(({ id }) => !delivered.has(encodeId('evt', id)))
    requireThat(
      missing.length === 0,
      () =>
        `${missing.length} of ${events.length} events did not reach the receiver: ${some(missing.map(({ id, type }) => `${type} ${encodeId('evt', id)}`))}`,
    )
    return true
  }, WITHIN)
}

/** The account has paid for each message once, and nobody exceeded a limit. */
const checkLimits = async (world: World, traffic: Traffic): Promise<void> => {
  const { account, flooding, limited, limitedSends, sends } = traffic
  requireThat(
    limitedSends.size * PRICE <= SPEND_LIMIT,
    () => `${limitedSends.size} messages were accepted within a limit for ${SPEND_LIMIT / PRICE}`,
  )
  // A process that ends may allow one more.
  requireThat(flooding.size <= 2, () => `${flooding.size} messages passed a flood window of one`)
  const live =
    [...sends.values()].reduce((sum, { mode, parts = 1 }) => sum + (mode === 'live' ? parts : 0), 0) +
    flooding.size
  await eventually(async () => {
    const spentOf = async (uuid: string) => {
      const [row] = await world.sql<[{ spent: number }]>`
        SELECT coalesce(sum(spent), 0)::float8 AS spent FROM command.spend_periods WHERE account = ${uuid}`
      return row.spent
    }
    const paid = { account: await spentOf(account.uuid), limited: await spentOf(limited.uuid) }
    if (paid.account !== live * PRICE) {
      const rows = await world.sql<ReadonlyArray<{ id: string; class: string }>>`
        SELECT message_id AS id, class FROM command.acceptances
         WHERE account = ${account.uuid} AND mode = 'live' AND NOT given_back
           AND message_id NOT IN (SELECT id FROM read.messages)`
      throw new Error(
        `${live} parts were charged ${paid.account}. Charged and not in Kafka: ${some(rows.map((row) => `${encodeId('msg', row.id)} (${row.class})`))}`,
      )
    }
    requireThat(
      paid.limited === limitedSends.size * PRICE,
      () => `${limitedSends.size} messages with a limit were charged ${paid.limited}`,
    )
    return true
  }, WITHIN)
}

/** Checks everything that belongs to the account of a cell. Throws with the first violation. */
export const verifyCell = async (world: World, traffic: Traffic, path: string): Promise<void> => {
  const { account, flooding, limited, limitedSends } = traffic
  const statuses = await checkStatuses(world, account.uuid, new Map([...messagesOf(traffic), ...flooding]))
  await checkStatuses(world, limited.uuid, limitedSends)
  await checkEvents(world, traffic, path, statuses)
  await checkLimits(world, traffic)
}

/** Seals the batches that crashes left open, as the sweeper does a minute later. No request may run. */
const sealOpenBatches = (world: World) => world.admin.ageOpenBatches()

/**
 * The last outcome of each message with a final status is its row. Faults may repeat a record, which is the
 * same then. Other messages have no outcome.
 */
const checkOutcomes = async ({ hub, sql }: World): Promise<void> => {
  await eventually(async () => (await sql`SELECT 1 FROM read.outcomes_due`).length === 0, WITHIN)
  const rows = await sql<ReadonlyArray<{ id: string; status: string; price: number }>>`
    SELECT id, status, (price * 100)::int AS price FROM read.messages WHERE final AND account IS NOT NULL`
  const expected = new Map(rows.map(({ id, price, status }) => [encodeId('msg', id), `${status} ${price}`]))
  const records = await readTopic(hub.describe().kafka.brokers, topicNames().outcomes, WITHIN.withinMs)
  const values = new Map<string, Buffer>()
  const wrong = new Set<string>()
  for (const record of records) {
    const { finalStatus, messageId, priceHundredths } = Result.getOrThrow(decodeMessageOutcome(record))
    const value = Buffer.from(record.value)
    const isOther = values.get(messageId)?.equals(value) === false
    if (isOther || expected.get(messageId) !== `${finalStatus} ${priceHundredths}`) wrong.add(messageId)
    values.set(messageId, value)
  }
  requireThat(wrong.size === 0, () => `${wrong.size} outcomes differ from their messages: ${some(wrong)}`)
  const missing = [...expected.keys()].filter((id) => !values.has(id))
  requireThat(missing.length === 0, () => `${missing.length} messages have no outcome: ${some(missing)}`)
}

/**
 * Checks the whole hub after a wave: no message was handed over twice, and every read model equals
 * the reference projection.
 */
export const verifyHub = async (world: World): Promise<void> => {
  const { hub, sql } = world
  await sealOpenBatches(world)
  const readOpen = () => sql<ReadonlyArray<{ id: string }>>`SELECT id FROM read.messages WHERE NOT final`
  const openAtMost = (await readOpen()).length
  await waitUntilIdle(hub, { accepted: 0, awaitSeals: true, openAtMost, withinMs: WITHIN.withinMs })
  const open = await readOpen()
  const history = await readHandoverHistory(hub.describe().kafka.brokers, WITHIN.withinMs)
  const testIds = new Set(
    (await sql<ReadonlyArray<{ id: string }>>`SELECT id FROM read.messages WHERE mode = 'test'`).map(
      ({ id }) => encodeId('msg', id),
    ),
  )
  // The sandbox recognizes references, so the hub may submit a message to it again.
  const repeated = history.repeated.filter((one) => !testIds.has(one.split(':')[0]!))
  requireThat(repeated.length === 0, () => `claimed twice: ${some(repeated)}`)
  const operator = await operatorStatistics(hub)
  requireThat(
    operator['repeated'] === 0,
    () => `the operator received ${operator['repeated']} messages twice`,
  )
  const unexplained = open.filter(({ id }) => !history.unknown.has(encodeId('msg', id)))
  requireThat(
    unexplained.length === 0,
    () =>
      `open without a claim of unknown outcome: ${some(unexplained.map(({ id }) => encodeId('msg', id)))}`,
  )
  await checkOutcomes(world)
  const erased = new Set(
    (
      await sql<ReadonlyArray<{ id: string }>>`
        SELECT id FROM read.messages WHERE recipient IN (SELECT recipient FROM command.erasures)`
    ).map(({ id }) => `read.personal_data ${id}: is missing`),
  )
  const differences = (await checkReadModels(hub)).differences.filter((one) => !erased.has(one))
  requireThat(differences.length === 0, () => `${differences.length} differences:\n${some(differences)}`)
}

/** The id of a row of `command` for a public id. */
export const uuidOf = (prefix: 'we' | 'msg', id: string): string => decodeId(prefix, id)!
