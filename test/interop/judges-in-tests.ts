/** Judges that are tests. `npm test` leaves them out, because they compile or install too much. */
import type { JudgeInTests } from '../support/external-tools.ts'
import { runTests } from './run-tests.ts'

/** The kind of the tests, and how the names of their files begin. A test in them is left out by `onlyIn(<judge>)`. */
const TESTS: Readonly<Record<JudgeInTests, readonly ['int' | 'e2e', string]>> = {
  'client-frameworks': ['e2e', 'test/contract/client-package'],
  'generated-clients': ['e2e', 'test/contract/generated-client'],
  oasdiff: ['int', 'test/contract/oasdiff'],
}

/** Runs the tests of a judge, with the output of `npm test`. */
const judge = (name: JudgeInTests) => async (): Promise<void> => {
  const [kind, filter] = TESTS[name]
  const code = await runTests(kind, [filter], { HUB_INTEROP: name }, 'inherit').ended
  if (code !== 0) throw new Error(`tests of ${name} failed`)
}

export const judgesInTests = {
  'client-frameworks': judge('client-frameworks'),
  'generated-clients': judge('generated-clients'),
  oasdiff: judge('oasdiff'),
} satisfies Record<JudgeInTests, () => Promise<void>>
