/** `hubctl audit` over PostgreSQL. */
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
  await hub.succeed(['accounts', 'create', 'Online shop'])
  await hub.succeed(['hub', 'limit', '1000'])
})
afterAll(() => hub.remove())

interface Listed {
  readonly data: ReadonlyArray<Readonly<Record<string, unknown>>>
}

describe('hubctl audit list', () => {
  it('shows who ran which command in which role, newest first', async () => {
    const { data } = await hub.succeed<Listed>(['audit', 'list'])
    assert.deepStrictEqual(
      data.map(({ actor, command, outcome, role }) => [actor, role, command, outcome]),
      [
        ['a test', 'admin', 'hub limit', 'done'],
        ['a test', 'admin', 'accounts create', 'done'],
      ],
    )
    assert.deepStrictEqual(data[0]?.['arguments'], { daily_limit: 1000 })
  })

  it('finds commands by their group and by their actor', async () => {
    const commands = async (...words: ReadonlyArray<string>) =>
      (await hub.succeed<Listed>(['audit', 'list', ...words])).data.map(({ command }) => command)
    assert.deepStrictEqual(await commands('--command', 'hub'), ['hub limit'])
    assert.deepStrictEqual(await commands('--actor', 'a test', '--limit', '1'), ['hub limit'])
    assert.deepStrictEqual(await commands('--actor', 'nobody we know'), [])
  })

  it('prints a table', async () => {
    const table = await hub.run(['audit', 'list', '--limit', '1'])
    assert.match(table.out, /^AT +ACTOR +COMMAND +ARGUMENTS +OUTCOME +DETAIL\n\d{4}-/u)
    assert.match(table.err, /^hubctl: the hub at /u)
  })
})
