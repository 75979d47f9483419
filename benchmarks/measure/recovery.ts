/**
 * Section `recovery`: recovery time of a shard with many open messages: right after the submits, and after a day in
 * which other messages came and went and the open ones were re-appended.
 */
import { type LogFact, newId, recipientHash } from '@hub/domain'
import { RE_APPENDED_IN_ONE, RE_APPEND_BEHIND, RE_APPEND_RATIO } from '@hub/dispatcher'
import { logRecord, openMessagesCarriedRecord, type OutgoingRecord, shardOpenedRecord } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { randomBytes } from 'node:crypto'
import { HASH_SECRET } from '../loads/bare-kafka.ts'
import { makeDispatchEnvironment, type Servers, submitFacts } from '../loads/dispatch-environment.ts'
import { type Section, target } from '../pages/results.ts'
import { type Log, onStack, type SectionBenchmark } from './section.ts'

interface Recovery {
  readonly open: number
  readonly records: number
  /** From the assignment of the shard until it is open, by the dispatcher's own metric, ms. */
  readonly ms: number
}

/** The number that the target names. */
const OPEN = 100_000
const SHARD = 0
const OPERATOR = 'sandbox'
const CHUNK = 5000

const metric = (text: string, name: string): number =>
  Number(new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+]+)$`, 'mu').exec(text)?.[1] ?? Number.NaN)

const recoveryOf = async (
  servers: Servers,
  plan: { readonly open: number; readonly afterADay: boolean },
): Promise<Recovery> => {
  const environment = await makeDispatchEnvironment(servers, 1)
  try {
    const now = Date.now()
    const day = plan.afterADay ? 86_400_000 : 60_000
    const recipients = Array.from({ length: 1000 }, (_, i) =>
      recipientHash(HASH_SECRET, `+79${100_000_000 + i}`),
    )
    let made = 0
    const record = (fact: LogFact) =>
      logRecord(environment.topics, fact, recipients[made++ % recipients.length]!, { partition: SHARD })
    const id = () => newId('msg', now, randomBytes(10))
    // The sandbox schedules no reports for ids of this form.
    const operatorIds = (messageId: string) => [`bench-${messageId}`]
    const reportDeadline = now + 26 * 3_600_000
    const submitted = (messageId: string, at: number): ReadonlyArray<OutgoingRecord> => {
      const ids = operatorIds(messageId)
      return submitFacts({ messageId, at, operator: OPERATOR, operatorIds: ids, reportDeadline }).map(record)
    }
    const opened = (epoch: number) =>
      shardOpenedRecord(environment.topics, {
        type: 'ShardOpened',
        shard: SHARD,
        epoch,
        member: 'bench',
        at: now,
      })

    /** The log from the low-water mark on, as a restart finds it. */
    const log: (open: number) => Iterable<OutgoingRecord> = plan.afterADay
      ? function* (open) {
          // The largest distance to the low-water mark that re-appending allows.
          yield opened(1)
          for (let i = 0; i < open; i += RE_APPENDED_IN_ONE) {
            const messages = Array.from({ length: Math.min(RE_APPENDED_IN_ONE, open - i) }, () => {
              const messageId = id()
              return {
                messageId,
                recipient: recipients[made++ % recipients.length]!,
                operator: OPERATOR,
                operatorIds: operatorIds(messageId),
                class: 'service' as const,
                attempts: 1,
                sentAt: now - day,
                reportDeadline,
                traceparent: null,
              }
            })
            yield openMessagesCarriedRecord(environment.topics, {
              type: 'OpenMessagesCarried',
              shard: SHARD,
              at: now - 180_000,
              messages,
            })
          }
          const others = RE_APPEND_BEHIND + RE_APPEND_RATIO * open - open / RE_APPENDED_IN_ONE
          for (let i = 0; i < others; i += 3) {
            const messageId = id()
            const at = now - 170_000
            yield* submitted(messageId, at)
            yield record({ type: 'MessageDelivered', messageId, at })
          }
        }
      : function* (open) {
          yield opened(1)
          for (let i = 0; i < open; i++) {
            yield* submitted(id(), now - day)
          }
        }

    let chunk: Array<OutgoingRecord> = []
    let records = 0
    for (const one of log(plan.open)) {
      records++
      chunk.push(one)
      if (chunk.length < CHUNK) continue
      await environment.append(chunk)
      chunk = []
    }
    if (chunk.length > 0) await environment.append(chunk)

    const dispatcher = await environment.start('dispatcher')
    // The dispatcher updates gauges once per second.
    return await eventually(
      async () => {
        const text = await dispatcher.metrics()
        const found = metric(text, 'hub_dispatcher_open_messages')
        const seconds = metric(text, 'hub_dispatcher_recovery_seconds_sum')
        return found > 0 && { open: found, records, ms: 1000 * seconds }
      },
      { withinMs: 10_000, everyMs: 100 },
    )
  } finally {
    await environment.close()
  }
}

const measureRecovery = async (servers: Servers, log: Log): Promise<Section> => {
  const fresh = await recoveryOf(servers, { open: OPEN, afterADay: false })
  const aged = await recoveryOf(servers, { open: OPEN, afterADay: true })
  log(`recovery of ${OPEN} open messages: ${fresh.ms.toFixed(0)} ms, after a day ${aged.ms.toFixed(0)} ms`)
  return {
    figures: { openMessages: fresh.open, recoveryMs: fresh.ms, recoveryAfterADayMs: aged.ms },
    rows: [
      [
        `recovery of a shard with ${fresh.open} open messages`,
        `${fresh.ms.toFixed(0)} ms (${fresh.records} records); after a day without reports ${aged.ms.toFixed(0)} ms (${aged.records} records)`,
        `${((1000 * fresh.records) / fresh.ms).toFixed(0)} records/s`,
      ],
    ],
    targets: [
      target(`recovery of a shard with ${OPEN} open messages, s`, fresh.ms / 1000, 3),
      target('the same after a day without reports, s', aged.ms / 1000, 3),
    ],
  }
}

export const recovery: SectionBenchmark = {
  name: 'recovery',
  what: 'dispatcher: recovery of a shard with many open messages',
  measure: onStack(async (servers, log) => ({ section: await measureRecovery(servers, log) })),
}
