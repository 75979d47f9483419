/**
 * The contract suite of the order: whatever happens to appends and processes, the records of a key reach
 * Kafka in the order of their rows. Only repeats of earlier records may follow later ones. Source:
 * docs/architecture.md, Accepting ("the relay publishes them in order when Kafka is back").
 */
import { assert, describe, it } from '@effect/vitest'
import { EventLog, KafkaUnavailable, type OutgoingRecord } from '@hub/kafka'
import { Context, Effect, Exit, type Layer, Logger, Scope } from 'effect'
import { makeOutbox } from './outbox.ts'
import { TestOutbox } from './store.contract.ts'
import { OutboxStore } from './store.port.ts'

/** What Kafka contains. */
export class TestTopic extends Context.Service<
  TestTopic,
  {
    readonly name: string
    /** The ids of the records of a key, in the order of the topic. */
    readonly idsOf: (key: string) => Effect.Effect<ReadonlyArray<string>>
  }
>()('@hub/outbox/testing/TestTopic') {}

const KEYS = ['key-1', 'key-2', 'key-3']
/** Rows that a process writes in each of these states of Kafka, in turns. `lost reply`: it has the records. */
const STATES = ['up', 'unavailable', 'up', 'lost reply', 'up'] as const
const ROWS_OF_STATE = 12

export const outboxOrderContract = (
  name: string,
  layer: Layer.Layer<OutboxStore | TestOutbox | EventLog | TestTopic>,
): void => {
  describe(`the order of ${name}`, () => {
    for (const relaysAtOnce of [true, false]) {
      it.live(
        `holds for each key across outages and processes, ${relaysAtOnce ? 'when rows are relayed at once' : 'when rows are relayed at an age'}`,
        () =>
          Effect.gen(function* () {
            const { append } = yield* EventLog
            const { insert } = yield* TestOutbox
            const store = yield* OutboxStore
            const topic = yield* TestTopic
            const run = relaysAtOnce ? 'at-once' : 'at-age'
            let state: (typeof STATES)[number] = 'up'
            let rows = 0
            const written = new Map<string, number>(KEYS.map((key) => [key, 0]))
            const counts = { direct: 0, relayed: 0, left: 0 }

            const send = (records: ReadonlyArray<OutgoingRecord>, by: 'direct' | 'relayed') =>
              Effect.gen(function* () {
                if (state === 'unavailable') {
                  return yield* new KafkaUnavailable({ reason: 'refused', detail: 'test' })
                }
                yield* append(records)
                if (state === 'lost reply') {
                  return yield* new KafkaUnavailable({ reason: 'timeout', detail: 'test' })
                }
                counts[by] += records.length
              })
            /** A transaction writes two records, of one or two keys. */
            const nextRecords = (): ReadonlyArray<OutgoingRecord> => {
              rows++
              return [KEYS[rows % KEYS.length]!, KEYS[(rows * rows) % KEYS.length]!].map((key) => {
                const number = written.get(key)! + 1
                written.set(key, number)
                return {
                  topic: topic.name,
                  key: `${run} ${key}`,
                  type: 'Numbered',
                  id: String(number),
                  occurredAt: 0,
                  value: Buffer.from(String(number)),
                }
              })
            }
            const start = (scope: Scope.Scope) =>
              makeOutbox({
                table: 'test',
                append: (records) => send(records, 'relayed'),
                abandonedAfterMs: 100,
                relaysAtOnce,
                lookEveryMs: 50,
                onStatus: () => Effect.void,
              }).pipe(Effect.provideService(Scope.Scope, scope))
            /** Writes rows as the apps do: the process appends them itself, unless it relays. */
            const write = Effect.fnUntraced(function* (outbox: Effect.Success<ReturnType<typeof start>>) {
              const records = nextRecords()
              const row = yield* insert(records)
              if (outbox.isRelaying()) {
                counts.left++
                outbox.leave(row)
              } else yield* Effect.ignore(outbox.appending([row], send(records, 'direct')))
            })
            const untilDirect = (outbox: Effect.Success<ReturnType<typeof start>>) =>
              Effect.repeat(Effect.sleep('10 millis'), { until: () => !outbox.isRelaying() })

            // The first process ends during an outage, and leaves rows to the next one.
            for (const states of [STATES.slice(0, 2), STATES]) {
              const scope = yield* Scope.make()
              const outbox = yield* start(scope)
              for (state of states) {
                for (let i = 0; i < ROWS_OF_STATE; i++) yield* write(outbox)
                // Kafka was back for long enough, or only for a moment.
                if (state === 'up') yield* untilDirect(outbox)
                for (let i = 0; i < ROWS_OF_STATE; i++) yield* write(outbox)
              }
              if (state === 'up') {
                yield* untilDirect(outbox)
                yield* Effect.repeat(Effect.andThen(Effect.sleep('10 millis'), store.status(0)), {
                  until: (status) => status.rows === 0,
                })
              }
              yield* Scope.close(scope, Exit.void)
            }

            assert.isAbove(counts.direct, 0)
            assert.isAbove(counts.relayed, 0)
            assert.isAbove(counts.left, 0)
            for (const key of KEYS) {
              const seen = new Set<number>()
              for (const id of yield* topic.idsOf(`${run} ${key}`)) {
                const number = Number(id)
                // A repeat, or the next one.
                if (!seen.has(number)) assert.strictEqual(number, seen.size + 1, `the next record of ${key}`)
                seen.add(number)
              }
              assert.strictEqual(seen.size, written.get(key), `all records of ${key}`)
            }
          }).pipe(Effect.scoped, Effect.provide(layer), Effect.provide(Logger.layer([]))),
        60_000,
      )
    }
  })
}
