/** The readiness of command-api after the restore of a database backup. */
import { randomBytes, randomUUID } from 'node:crypto'
import { ErasureTopic, layerEventLog, layerTopicReader } from '@hub/kafka'
import { makeSql, restoreErasures, Sql } from '@hub/store'
import { eventually } from '@hub/testkit'
import { Effect, Layer, Logger, Redacted } from 'effect'
import { describe, expect, it } from 'vitest'
import { type Api, type Deployment, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
startBeforeTests((started) => ({ deployment, api } = started))

describe('command-api', () => {
  it('is not ready with a database that lacks erasures of the topic, until they are applied again', async () => {
    const { connection, databaseUrl, topics } = deployment
    const layer = ErasureTopic.layer(topics).pipe(
      Layer.provide(
        Layer.merge(layerTopicReader({ connection }), layerEventLog({ connection, partitions: 1 })),
      ),
      Layer.merge(Layer.effect(Sql, makeSql(Redacted.make(databaseUrl), 2, 'readiness-test'))),
      Layer.merge(Logger.layer([])),
    )
    await eventually(async () => !(await api.failing()).includes('erasures'))
    const at = Date.now()
    const erasure = {
      erasure: randomUUID(),
      recipient: randomBytes(32).toString('hex'),
      requestedAt: at,
      before: at,
    }
    await Effect.runPromise(
      Effect.flatMap(ErasureTopic, (topic) => topic.append([erasure])).pipe(Effect.provide(layer)),
    )
    await eventually(async () => (await api.failing()).includes('erasures'))
    // A process that starts now is not ready either.
    const started = await deployment.start()
    try {
      expect(await started.failing()).toContain('erasures')
      expect(await Effect.runPromise(restoreErasures().pipe(Effect.provide(layer)))).toBe(1)
      for (const process of [api, started]) {
        await eventually(async () => !(await process.failing()).includes('erasures'))
      }
    } finally {
      await started.stop()
    }
  })
})
