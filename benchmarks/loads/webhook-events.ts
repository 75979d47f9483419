/** Events of accounts for the fan-out, as the projector publishes them. */
import { eventId, type Mode, toTimestamp } from '@hub/domain'
import { EventLog, eventRecordedRecord, layerEventLog, topicNames } from '@hub/kafka'
import { Effect } from 'effect'
import { FANOUT_PARTITIONS } from '../../test/support/fanout-fixture.ts'

/** The last batch window, and the attempts in flight. */
const SETTLE_MS = 2500

export interface PacedEvents {
  /** They get the events in turn. */
  readonly accounts: ReadonlyArray<string>
  /** Events per second. */
  readonly rate: number
  readonly durationMs: number
  /** Until the events should have been delivered. */
  readonly settleMs?: number
}

/** Returns a function that appends evenly paced events, and waits for their deliveries. */
export const eventSource = ({
  brokers,
  prefix,
}: {
  readonly brokers: ReadonlyArray<string>
  readonly prefix: string
}): ((events: PacedEvents) => Promise<void>) => {
  const topics = topicNames(prefix)
  const mode: Mode = 'test'
  let sequence = 0
  return ({ accounts, durationMs, rate, settleMs = SETTLE_MS }) =>
    Effect.runPromise(
      Effect.gen(function* () {
        const log = yield* EventLog
        const begun = performance.now()
        const count = Math.floor((durationMs / 1000) * rate)
        for (let index = 0; index < count; index++) {
          const wait = begun + (index * 1000) / rate - performance.now()
          if (wait > 0) yield* Effect.sleep(wait)
          const account = accounts[index % accounts.length]!
          const written = performance.timeOrigin + performance.now()
          const id = eventId(`${account} ${written}`)
          const createdAt = Math.floor(written)
          sequence += 1
          const record = eventRecordedRecord(topics, {
            type: 'EventRecorded',
            event: id,
            account,
            mode,
            sequence,
            eventType: 'message.sent',
            createdAt,
            body: JSON.stringify({
              id,
              object: 'event',
              type: 'message.sent',
              created_at: toTimestamp(createdAt),
              mode,
              data: { object: { object: 'message', written } },
            }),
          })
          yield* Effect.forkScoped(log.append([record]))
        }
        yield* Effect.sleep(settleMs)
      }).pipe(
        Effect.scoped,
        Effect.provide(
          layerEventLog({ connection: { brokers, clientId: 'bench-events' }, partitions: FANOUT_PARTITIONS }),
        ),
      ),
    )
}
