/** `hubctl migrations`, as it is typed, over PostgreSQL. */
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeWorld, type World } from '../testing/world.ts'

let world: World

beforeAll(async () => {
  world = await makeWorld()
})
afterAll(() => world.remove())

describe('waiting for the schema', () => {
  it('ends at once where nothing is pending, also where the schema is newer', async () => {
    assert.include(await world.succeed<object>(['migrations', 'wait']), { object: 'migrations_applied' })
    await world.sql`INSERT INTO public.hub_migrations (name, checksum) VALUES ('9999_of_tomorrow.sql', 'x')`
    await world.succeed(['migrations', 'wait'])
    assert.strictEqual((await world.run(['migrations', 'status'])).code, 1)
    await world.sql`DELETE FROM public.hub_migrations WHERE name = '9999_of_tomorrow.sql'`
  })

  it('goes on until what was pending is applied, and no longer than it may', async () => {
    const [last] = await world.sql`
      DELETE FROM public.hub_migrations WHERE name = (SELECT max(name) FROM public.hub_migrations) RETURNING *`
    assert.strictEqual(await world.refusal(['migrations', 'wait', '--within', '0']), 'migrations_pending')
    const waiting = world.succeed(['migrations', 'wait', '--within', '60'])
    await world.sql`INSERT INTO public.hub_migrations ${world.sql(last!)}`
    await waiting
  })
})
