/** The unit tests of the Python client. Without Python 3.9, they are skipped. */
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { expect, it } from 'vitest'
import { orSkip, runTool } from '../support/external-tools.ts'
import { PYTHON_CLIENT, python } from '../support/python-client.ts'

/** They take seconds on a quiet machine. */
const WITHIN_MS = 300_000

it(
  'pass',
  async (context) => {
    const { command } = await orSkip(context, python())
    const words = ['-W', 'error', '-m', 'unittest', 'discover', '-t', '.', '-s', 'tests']
    const environment = ['PYTHONDONTWRITEBYTECODE=1', `PYTHONPATH=${join(ROOT, PYTHON_CLIENT, 'src')}`]
    const { code, text } = await runTool('env', [...environment, command, ...words], {
      cwd: join(ROOT, PYTHON_CLIENT),
      withinMs: WITHIN_MS,
    })
    expect(code, text).toBe(0)
    // Outside of the repository some tests are skipped. Here, none is.
    expect(text).toMatch(/^Ran [1-9]\d+ tests in .*\n\nOK$/mu)
  },
  WITHIN_MS + 60_000,
)
