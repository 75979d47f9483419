/** The commands for number ranges, over PostgreSQL. */
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'

let hub: TestHub
let account: string

beforeAll(async () => {
  hub = await makeTestHub()
  account = (await hub.succeed<{ readonly id: string }>(['accounts', 'create', 'Online shop'])).id
})
afterAll(() => hub.remove())

describe('ranges', () => {
  it('are blocked for a time, listed, replaced and unblocked', async () => {
    const words = ['ranges', 'block', account, '912', '--for', '24h', '--reason', 'Attack']
    const first = await hub.succeed<{ readonly until: string }>([...words, '--yes'])
    const shown = await hub.run([...words, '--yes'])
    assert.include(shown.out, first.until)
    assert.match(shown.out, /instead of until/u)
    const { data } = await hub.succeed<{ readonly data: ReadonlyArray<object> }>(['ranges', 'list'])
    assert.lengthOf(data, 1)
    assert.include(data[0], { account, range: '912', name: 'Online shop', reason: 'Attack' })
    await hub.succeed(['ranges', 'unblock', account, '912'])
    assert.strictEqual(await hub.refusal(['ranges', 'unblock', account, '912']), 'range_not_blocked')
    assert.deepInclude(await hub.succeed<object>(['ranges', 'suspicious']), { data: [] })
  })

  it('are refused with a wrong range, time or account', async () => {
    const refusal = (id: string, range: string, time: string) =>
      hub.refusal(['ranges', 'block', id, range, '--for', time, '--reason', 'Attack', '--yes'])
    assert.strictEqual(await refusal(account, '12', '1h'), 'usage')
    assert.strictEqual(await refusal(account, '912', '31d'), 'usage')
    assert.strictEqual(await refusal('acc_00000000000000000000000000', '912', '1h'), 'account_not_found')
  })
})
