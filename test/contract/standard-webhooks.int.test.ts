/**
 * The Python and Java libraries of Standard Webhooks verify a delivery. `npm run interop -- standard-webhooks` also
 * asks the libraries of Go and Rust, which must be compiled.
 */
import { expect, it } from 'vitest'
import { judgeWithJava, judgeWithPython, judgeWithPythonClient } from '../interop/standard-webhooks.ts'
import { orSkip } from '../support/external-tools.ts'

/** Three secrets, five changed copies, and an old delivery. */
const ANSWERS = 9

// Rules: DEL-25, DEL-26
it('the Python library accepts each secret that signs, and nothing that was changed', async (context) => {
  const { right } = await orSkip(context, judgeWithPython())
  expect(right).toBe(ANSWERS)
}, 240_000)

// Rules: DEL-25, DEL-26
it('the Java library accepts each secret that signs, and nothing that was changed', async (context) => {
  const { right } = await orSkip(context, judgeWithJava())
  expect(right).toBe(ANSWERS)
}, 240_000)

// Rules: DEL-25, DEL-26
it('the Python client gives the same answers as that library', async (context) => {
  const { right } = await orSkip(context, judgeWithPythonClient())
  expect(right).toBe(ANSWERS)
}, 240_000)
