/** Messages without an answer of the operator, in the checks and in the overview. */
import { uuidOf } from '@hub/store'
import { eventually } from '@hub/testkit'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import * as Doctor from './doctor/index.ts'
import { readUnanswered } from './unanswered.ts'
import { query } from './sql.ts'
import { makeTestHub, type TestHub } from './testing/test-hub.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

describe('messages that count as sent without an answer of the operator', () => {
  it('are counted, and all others are not', async () => {
    const { uuid } = await hub.account('Online shop')
    const now = Date.now()
    const at = now - MINUTE_MS
    const oldest = now - HOUR_MS
    await hub.message({ account: uuid, status: 'sent', class: 'otp', at: oldest })
    await hub.message({ account: uuid, status: 'expired', reason: 'dlr_timeout_local', at })

    const answered = await hub.message({ account: uuid, status: 'sent', at })
    await hub.sql`INSERT INTO read.operator_ids (operator, operator_id, message_id, sent_at)
      VALUES ('smpp', '1', ${uuidOf('msg', answered)}, now())`
    await hub.message({ account: uuid, status: 'expired', reason: 'ttl_expired_before_submit', at })
    await hub.message({ account: uuid, status: 'accepted', at })
    await hub.message({ account: uuid, status: 'delivered', at })
    await hub.message({ account: uuid, status: 'sent', at: now - 25 * HOUR_MS })

    const counted = { sent: 1, expired: 1, oldest_at: new Date(oldest).toISOString() }
    // On a busy machine PostgreSQL may answer after the deadline of a check.
    await eventually(async () => {
      const { findings } = await hub.run(Doctor.checkHub, {})
      const finding = findings.find(({ subject }) => subject === 'unanswered submits')
      assert.deepStrictEqual([finding?.verdict, finding?.facts], ['note', counted])
      return true
    })
    assert.deepStrictEqual(await hub.runtime.runPromise(query(readUnanswered)), counted)
  })
})
