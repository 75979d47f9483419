/**
 * The console in a real browser, with a real hub behind it: the journeys of hub staff, what each role
 * must not do, and attacks. One hub and one browser serve all tests.
 */
import { afterAll, describe } from 'vitest'
import { accessibilityTests } from './suites/accessibility.ts'
import { appearanceTests } from './suites/appearance.ts'
import { attackTests } from './suites/attacks.ts'
import { insightTests } from './suites/insights.ts'
import { manyTests } from './suites/many.ts'
import { memberTests } from './suites/members.ts'
import { messageTests } from './suites/messages.ts'
import { moderationTests } from './suites/moderation.ts'
import { operatorTests } from './suites/operators.ts'
import { peopleTests } from './suites/people.ts'
import { roleTests } from './suites/roles.ts'
import { sessionTests } from './suites/session.ts'
import { webhookTests } from './suites/webhooks.ts'
import { type Console, startConsole } from './support.ts'

const started = await startConsole()
if ('missing' in started) console.log(`The tests of the console are skipped: ${started.missing}`)

describe.skipIf('missing' in started)('the console', () => {
  if ('missing' in started) return
  const running: Console = started
  afterAll(running.close)
  messageTests(running)
  insightTests(running)
  moderationTests(running)
  webhookTests(running)
  operatorTests(running)
  peopleTests(running)
  manyTests(running)
  roleTests(running)
  memberTests(running)
  appearanceTests(running)
  accessibilityTests(running)
  // It restarts the API.
  sessionTests(running)
  // Last: the pictures of the other tests show no texts of attackers.
  attackTests(running)
})
