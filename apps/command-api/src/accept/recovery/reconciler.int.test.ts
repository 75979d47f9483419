/** The reconciler with PostgreSQL and Kafka. The test acts as the projector. */
import { randomUUID } from 'node:crypto'
import { decodeId, factId } from '@hub/domain'
import { layerEventLog } from '@hub/kafka'
import { makeSql, Sql } from '@hub/store'
import { eventually } from '@hub/testkit'
import { Effect, Layer, Logger, ManagedRuntime, Redacted } from 'effect'
import { assert, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  callUnlessLate,
  type Deployment,
  facts,
  startBeforeTests,
} from '../../testing/harness.ts'
import { commandOutboxLayer } from './command-outbox.ts'
import { LedgerScan } from '../../messages/ledger-scan.ts'
import { Lanes, makeReconciler, type Reconciled } from './reconciler.ts'
import { UnprovenCodes } from './unproven-codes.ts'

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => ({ deployment, api, account } = started))

const uuidOf = (id: string): string => decodeId('msg', id) ?? ''

let numbers = 2_000_000
const send = async (messageClass: 'otp' | 'service'): Promise<string> => {
  // With the key, a repeat after a late answer is the same message.
  const answer = await callUnlessLate(api.url, '/v1/messages', {
    key: account.keys.live,
    headers: { 'idempotency-key': randomUUID() },
    body: {
      to: `+7902${++numbers}`,
      class: messageClass,
      ...(messageClass === 'otp'
        ? { template: 'otp_code', variables: { code: '1' } }
        : { template: 'order_ready', variables: { order: '1' } }),
    },
  })
  assert.strictEqual(answer.status, 202, JSON.stringify(answer.body))
  return (answer.body as { id: string }).id
}

/** Projects a message. */
const project = (id: string) =>
  deployment.sql(
    (q) => q`INSERT INTO read.messages (id, account, mode, updated_at, status, rank, final)
             VALUES (${uuidOf(id)}, ${account.uuid}, 'live', now(), 'accepted', 0, false)`,
  )

/** Sets the projector's checkpoints. */
const checkpoint = async (ends: Readonly<Record<'otp' | 'service', ReadonlyArray<number>>>) => {
  for (const [topic, positions] of [
    ['hub.accepted.otp.v1', ends.otp],
    ['hub.accepted.service.v1', ends.service],
  ] as const) {
    for (const [partition, position] of positions.entries()) {
      await deployment.sql(
        (q) => q`INSERT INTO read.checkpoints (projection, topic, partition, position, epoch)
                 VALUES ('messages', ${topic}, ${partition}, ${position}, 1)
                 ON CONFLICT (projection, topic, partition) DO UPDATE SET position = ${position}`,
      )
    }
  }
}

const spent = async (): Promise<string | undefined> => {
  const [row] = await deployment.sql<{ spent: string }[]>(
    (q) => q`SELECT spent::text FROM command.spend_periods WHERE account = ${account.uuid}`,
  )
  return row?.spent
}

const outboxIsEmpty = async () => {
  const rows = await deployment.sql<unknown[]>((q) => q`SELECT 1 FROM command.outbox`)
  return rows.length === 0
}

describe('the reconciler', () => {
  it('republishes and refunds messages that are proven not to be in Kafka, and charges a refunded code that is', async () => {
    const runtime = ManagedRuntime.make(
      Layer.mergeAll(
        Lanes.layer(deployment.connection, deployment.topics),
        LedgerScan.layer,
        commandOutboxLayer,
        UnprovenCodes.layer,
      ).pipe(
        Layer.provideMerge(
          Layer.mergeAll(
            Layer.effect(Sql, makeSql(Redacted.make(deployment.databaseUrl), 3, 'reconciler-test')),
            layerEventLog({ connection: deployment.connection, partitions: 3 }),
          ),
        ),
        Layer.provideMerge(Logger.layer([])),
      ),
    )
    try {
      const reconcile = await runtime.runPromise(
        makeReconciler({ topics: deployment.topics, lateAfterSeconds: 0 }),
      )
      const turn = (): Promise<Reconciled> => runtime.runPromise(reconcile('all'))
      const ends = () => runtime.runPromise(Effect.flatMap(Lanes, (lanes) => lanes.ends))
      const records = await deployment.tail(deployment.topics.acceptedService)
      const copies = (id: string) => records.filter((record) => record.id === factId(id, 'accepted'))

      const lost = await send('service')
      const landed = await send('service')
      const code = await send('otp')
      // Younger codes may still be on their way to Kafka.
      await deployment.sql(
        (q) => q`UPDATE command.acceptances SET created_at = created_at - interval '6 seconds'
                  WHERE message_id = ${uuidOf(code)}`,
      )
      await project(landed)
      await eventually(() => copies(lost).length === 1)
      // For the ledger the messages are late, and their outbox rows are gone.
      await eventually(outboxIsEmpty)

      // The checkpoints are too low: the messages may only be late.
      await checkpoint({ otp: [0, 0, 0], service: [0, 0, 0] })
      assert.deepInclude(await turn(), { republished: 0, late: 2 })
      assert.deepInclude(await turn(), { republished: 0, late: 2 })
      assert.strictEqual(await spent(), '6.50')

      // The checkpoints have passed the end offsets, and the read model does not contain the
      // messages.
      await checkpoint(await ends())
      assert.deepInclude(await turn(), { republished: 1, refunded: 1 })
      await eventually(() => copies(lost).length === 2)
      assert.deepStrictEqual(
        facts(copies(lost)).map(({ republished }) => republished),
        [false, true],
      )
      // The ledger has the masked number only.
      const [range, again] = facts(copies(lost)).map(({ numberRange }) => numberRange)
      assert.match(range ?? '', /^9\d\d$/u)
      assert.strictEqual(again, range)
      assert.strictEqual(copies(landed).length, 1)

      // Not again before the checkpoints have passed the second record too.
      await eventually(outboxIsEmpty)
      assert.deepInclude(await turn(), { republished: 0 })
      assert.deepInclude(await turn(), { republished: 0 })

      // Both messages expire.
      await deployment.sql(
        (q) => q`
        UPDATE command.acceptances SET expires_at = now() - interval '1 second'
         WHERE message_id = ANY (${[uuidOf(lost), uuidOf(code)]}::uuid[])`,
      )
      await checkpoint(await ends())
      await turn()
      await eventually(async () => (await turn()).late === 0)
      assert.strictEqual(await spent(), '2.00')

      // The code is in Kafka: its append was only reported as failed.
      await project(code)
      assert.deepInclude(await turn(), { charged: 1 })
      assert.strictEqual(await spent(), '4.50')
      assert.deepInclude(await turn(), { charged: 0, republished: 0, refunded: 0, late: 0 })
    } finally {
      await runtime.dispose()
    }
  })
})
