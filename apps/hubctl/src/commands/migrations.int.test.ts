/** `hubctl migrations` over PostgreSQL. */
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'

let hub: TestHub

beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

describe('hubctl migrations wait', () => {
  it('ends immediately if no migration is pending, also with a newer schema', async () => {
    assert.include(await hub.succeed<object>(['migrations', 'wait']), { object: 'migrations_applied' })
    await hub.sql`INSERT INTO public.hub_migrations (name, checksum) VALUES ('9999_of_tomorrow.sql', 'x')`
    await hub.succeed(['migrations', 'wait'])
    assert.strictEqual((await hub.run(['migrations', 'status'])).code, 1)
    await hub.sql`DELETE FROM public.hub_migrations WHERE name = '9999_of_tomorrow.sql'`
  })

  it('waits until all migrations are applied, or until its timeout', async () => {
    const [last] = await hub.sql`
      DELETE FROM public.hub_migrations WHERE name = (SELECT max(name) FROM public.hub_migrations) RETURNING *`
    assert.strictEqual(await hub.refusal(['migrations', 'wait', '--within', '0']), 'migrations_pending')
    const waiting = hub.succeed(['migrations', 'wait', '--within', '60'])
    await hub.sql`INSERT INTO public.hub_migrations ${hub.sql(last!)}`
    await waiting
  })
})
