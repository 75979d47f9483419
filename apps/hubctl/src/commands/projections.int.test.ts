/** `hubctl projections`. The tests update the rebuild row in place of a projector. */
import { createTopics, topicCatalogue, topicNames } from '@hub/kafka'
import { eventually, freshDatabase, openDatabase, testBrokers, topicPrefix } from '@hub/testkit'
import { Effect } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { runHubctl } from '../testing/run-hubctl.ts'

const prefix = topicPrefix()
let database: Awaited<ReturnType<typeof freshDatabase>>
let sql: ReturnType<typeof openDatabase>

const run = (...args: ReadonlyArray<string>) =>
  runHubctl(
    {
      HUB_DATABASE_URL: database.url,
      HUB_KAFKA_BROKERS: testBrokers().join(','),
      HUB_TOPIC_PREFIX: prefix,
      HUB_PARTITIONS: '2',
      HUBCTL_ACTOR: 'a test',
    },
    args,
  )
const codeOf = (err: string): string =>
  (JSON.parse(err.slice(err.indexOf('{'))) as { readonly error: { readonly code: string } }).error.code

interface Shown {
  readonly id: string
  readonly policy: string
  readonly state: string
  readonly outcome: string | null
  readonly differences: number | null
}

beforeAll(async () => {
  database = await freshDatabase()
  sql = openDatabase(database.url)
  await Effect.runPromise(
    createTopics(
      { brokers: testBrokers(), clientId: 'hubctl-test' },
      topicCatalogue({ prefix, partitions: 2, replicationFactor: 1 }),
    ),
  )
})
afterAll(async () => {
  await sql.end()
  await database.drop()
})

describe('projections', () => {
  it('have a lag per partition, without a rebuild', async () => {
    await sql`
      INSERT INTO read.checkpoints (projection, topic, partition, position, epoch)
      VALUES ('messages', ${topicNames().messages}, 1, 0, 1)`
    const shown = (await run('projections', 'status', '--json')).json<{
      readonly lag: number
      readonly partitions: ReadonlyArray<{ readonly topic: string; readonly partition: number }>
      readonly rebuild: null
    }>()
    assert.deepInclude(shown, { lag: 0, rebuild: null })
    assert.deepStrictEqual(
      shown.partitions.map(({ partition, topic }) => `${topic}/${partition}`).toSorted(),
      ['acceptedOtp', 'acceptedService', 'messages']
        .flatMap((name) => [0, 1].map((p) => `${topicNames(prefix)[name as 'messages']}/${p}`))
        .toSorted(),
    )
    assert.match(
      (await run('projections', 'status')).out,
      /0 records behind\.\n\nNothing has been rebuilt\./u,
    )
  })

  it('have one rebuild at a time, after confirmation, that can be cancelled', async () => {
    const unasked = await run('projections', 'rebuild', '--json')
    assert.strictEqual(codeOf(unasked.err), 'confirmation_required')
    const both = await run('projections', 'rebuild', '--compare-only', '--accept-differences', '--json')
    assert.strictEqual(both.code, 2)

    const begun = (await run('projections', 'rebuild', '--yes', '--json')).json<Shown>()
    assert.deepInclude(begun, {
      policy: 'swap_if_equal',
      state: 'requested',
      outcome: null,
      differences: null,
    })
    const second = await run('projections', 'rebuild', '--compare-only', '--json')
    assert.strictEqual(codeOf(second.err), 'rebuild_under_way')
    const cancelled = (await run('projections', 'cancel', '--json')).json<Shown>()
    assert.deepInclude(cancelled, { id: begun.id, state: 'ended', outcome: 'cancelled' })
    assert.strictEqual(codeOf((await run('projections', 'cancel', '--json')).err), 'no_rebuild')
  })

  it('show the differences after the wait for a rebuild, with an exit code', async () => {
    const waiting = run('projections', 'rebuild', '--compare-only', '--wait')
    const compared = [
      {
        table: 'read.messages',
        live: 3,
        rebuilt: 4,
        differences: 2,
        examples: [
          { key: 'msg_01', missing: 'live', columns: [] },
          { key: 'msg_02', missing: null, columns: ['attempts', 'seen'] },
        ],
      },
    ]
    await eventually(async () => {
      const rows = await sql`
          UPDATE command.rebuilds
             SET state = 'ended', outcome = 'compared', ended_at = now(), compared = ${JSON.stringify(compared)}::text::jsonb
           WHERE ended_at IS NULL`
      return rows.count === 1
    })
    const { code, err, out } = await waiting
    assert.strictEqual(code, 1)
    assert.match(err, /read_models_differ/u)
    assert.match(out, /read\.messages +3 +4 +2/u)
    assert.match(out, /msg_01 +not in the live table/u)
    assert.match(out, /msg_02 +attempts, seen/u)
    const { rebuild } = (await run('projections', 'status', '--json')).json<{ readonly rebuild: Shown }>()
    assert.deepInclude(rebuild, { outcome: 'compared', differences: 2 })
    const trail = await sql`SELECT DISTINCT command FROM command.audit ORDER BY 1`
    assert.deepStrictEqual(
      trail.map((row) => row['command'] as string),
      ['projections cancel', 'projections rebuild'],
    )
  })
})
