import { makeSupervisor } from '@hub/flow'
import { assert, describe, it } from '@effect/vitest'
import { encodeId, eventId } from '@hub/domain'
import { encodeRecord, type EventRecorded, type IncomingRecord, webhooksKey } from '@hub/kafka'
import { layerSimulatedKafka } from '@hub/kafka/testing'
import { StorageUnavailable } from '@hub/store'
import { WebhookClient } from '@hub/webhooks'
import { Effect } from 'effect'
import { TestClock } from 'effect/testing'
import { FANOUT_DEFAULTS, FanoutSettings } from '../config.ts'
import { makeDeliverer } from '../delivery/deliverer.ts'
import { FanoutStore } from '../store/store.port.ts'
import { MemoryStore } from '../testing/memory-store.ts'
import { openPartition, type Partition } from './partition.ts'

const ACCOUNT = encodeId('acc', '00000000-0000-4000-8000-000000000001')
const ENDPOINTS = ['00000000-0000-4000-8000-00000000000a', '00000000-0000-4000-8000-00000000000b'] as const

const recordOf = (sequence: number): IncomingRecord => {
  const event: EventRecorded = {
    type: 'EventRecorded',
    event: eventId(`event ${sequence}`),
    account: ACCOUNT,
    mode: 'live',
    sequence,
    eventType: 'message.sent',
    createdAt: 0,
    body: JSON.stringify({ sequence }),
  }
  return {
    topic: 'hub.webhooks.v1',
    partition: 0,
    offset: sequence - 1,
    key: webhooksKey(ACCOUNT, 'live'),
    type: event.type,
    id: event.event,
    occurredAt: 0,
    appendedAt: 0,
    traceparent: null,
    value: encodeRecord(event),
  }
}

/** A partition with two subscriptions, and the events (sequence numbers) that their receivers got. */
const setup = Effect.gen(function* () {
  const store = new MemoryStore({ settings: FANOUT_DEFAULTS, random: () => 0.5 })
  for (const uuid of ENDPOINTS) store.subscribe(uuid, ACCOUNT)
  const shape = store.shape()
  /** PostgreSQL commits the next storage, and its answer is lost. */
  let losesReply = false
  const received = new Map<string, Array<ReadonlyArray<number>>>(ENDPOINTS.map((uuid) => [uuid, []]))
  let partition: Partition | null = null
  const start = Effect.gen(function* () {
    const deliverer = yield* makeDeliverer({
      mayStart: () => true,
      report: (subscription, outcome) => partition?.report(subscription, outcome),
      supervise: makeSupervisor().supervise,
    })
    const { epoch } = yield* shape.acquire(0)
    const opened = yield* openPartition({
      ownership: { partition: 0, epoch },
      startAt: 0,
      sources: [{ account: ACCOUNT, mode: 'live' }],
      deliverer,
      consumer: { pause: () => {}, resume: () => {}, commit: () => Effect.void },
    })
    partition = opened
    yield* Effect.forkScoped(opened.run)
    return opened
  }).pipe(
    Effect.provide(layerSimulatedKafka(1)),
    Effect.provideService(FanoutSettings, FANOUT_DEFAULTS),
    Effect.provideService(FanoutStore, {
      ...shape,
      storeBatches: (...given) =>
        Effect.flatMap(shape.storeBatches(...given), (stored) => {
          if (!losesReply) return Effect.succeed(stored)
          losesReply = false
          return Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'test' }))
        }),
    }),
    Effect.provideService(WebhookClient, {
      openSockets: () => 0,
      deliver: () => Effect.die('the deliverer begins attempts itself'),
      begin: ({ body, url }, _deadlineMs, done) => {
        const events = JSON.parse(Buffer.from(body).toString()) as ReadonlyArray<{ sequence: number }>
        received.get(url.slice(url.lastIndexOf('/') + 1))!.push(events.map(({ sequence }) => sequence))
        done({ succeeded: true, responseCode: 200, durationMs: 1, reason: null })
        return () => {}
      },
    }),
  )
  const opened = yield* start
  return {
    received,
    ingest: (...sequences: ReadonlyArray<number>) => opened.ingest(sequences.map(recordOf)),
    loseNextReply: () => {
      losesReply = true
    },
    isLost: () => !losesReply,
  }
})

describe('a webhook batch whose storage was reported as failed', () => {
  it.effect('is attempted without a restart or another event', () =>
    Effect.gen(function* () {
      const { ingest, isLost, loseNextReply, received } = yield* setup
      loseNextReply()
      yield* ingest(1, 2, 3)
      yield* TestClock.adjust('30 seconds')
      assert.isTrue(isLost())
      for (const uuid of ENDPOINTS) assert.deepStrictEqual(received.get(uuid), [[1, 2, 3]])
    }).pipe(Effect.scoped),
  )

  it.effect('is attempted if more events came before it was stored again', () =>
    Effect.gen(function* () {
      const { ingest, isLost, loseNextReply, received } = yield* setup
      loseNextReply()
      yield* ingest(1, 2, 3)
      // The store fails, and is repeated with the events that have come by then.
      yield* TestClock.adjust(FANOUT_DEFAULTS.batchWindowMs)
      assert.isTrue(isLost())
      yield* ingest(4, 5)
      yield* TestClock.adjust('30 seconds')
      for (const uuid of ENDPOINTS) assert.sameMembers((received.get(uuid) ?? []).flat(), [1, 2, 3, 4, 5])
    }).pipe(Effect.scoped),
  )
})
