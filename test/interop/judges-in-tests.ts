/** Judges that are tests. `npm test` leaves them out, because they compile or install too much. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'

/** By name: the kind of the tests and their file. A test of the file is left out by `onlyIn(<name>)`. */
const TESTS = {
  'client-frameworks': ['e2e', 'test/contract/client-package'],
  'generated-clients': ['e2e', 'test/contract/generated-client'],
  oasdiff: ['int', 'test/contract/oasdiff'],
} as const

/** Runs the tests of a name, with the output of `npm test`. */
const runTests = async (name: keyof typeof TESTS): Promise<void> => {
  const child = spawn(process.execPath, [join(ROOT, 'scripts/test.ts'), ...TESTS[name]], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, HUB_INTEROP: name },
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0) throw new Error(`tests of ${name} failed`)
}

export const judgesInTests = {
  'client-frameworks': () => runTests('client-frameworks'),
  'generated-clients': () => runTests('generated-clients'),
  oasdiff: () => runTests('oasdiff'),
}
