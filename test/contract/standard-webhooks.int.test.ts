/**
 * The Python library of Standard Webhooks verifies a delivery. `npm run interop -- standard-webhooks` also asks
 * the libraries of Go and Rust, which must be compiled.
 */
import { expect, it } from 'vitest'
import { judgeWithPython, judgeWithPythonClient } from '../interop/standard-webhooks.ts'
import { orSkip } from '../support/external-tools.ts'

// Rules: DEL-25, DEL-26
it('the Python library accepts each secret that signs, and nothing that was changed', async (context) => {
  const { right } = await orSkip(context, judgeWithPython())
  expect(right).toBe(8)
}, 240_000)

// Rules: DEL-25, DEL-26
it('the Python client gives the same answers as that library', async (context) => {
  const { right } = await orSkip(context, judgeWithPythonClient())
  expect(right).toBe(8)
}, 240_000)
