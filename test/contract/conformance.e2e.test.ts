/**
 * Checks the contract rule by rule over HTTP. Each test names its rules of docs/contract. All share one
 * hub; each test creates its own accounts.
 */
import { afterAll, beforeAll } from 'vitest'
import { access } from './conformance/access.ts'
import { batch } from './conformance/batch.ts'
import { idempotency } from './conformance/idempotency.ts'
import { limits } from './conformance/limits.ts'
import { messages } from './conformance/messages.ts'
import { reads } from './conformance/reads.ts'
import { errors, order } from './conformance/refusals.ts'
import { sandbox } from './conformance/sandbox.ts'
import { texts } from './conformance/texts.ts'
import { startFixture, type Fixture } from './conformance/fixture.ts'

let current: Fixture | undefined
const fixture = (): Fixture => {
  if (current === undefined) throw new Error('the hub is not started yet: call this inside a test')
  return current
}

beforeAll(async () => {
  current = await startFixture()
})
afterAll(() => current?.stop())

messages(fixture)
batch(fixture)
texts(fixture)
access(fixture)
idempotency(fixture)
limits(fixture)
reads(fixture)
order(fixture)
sandbox(fixture)
// This section must be last: it checks which codes the other sections received.
errors(fixture)
