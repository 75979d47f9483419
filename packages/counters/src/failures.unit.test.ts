import { assert, describe, it } from 'vitest'
import { codeOf, toUnavailable } from './failures.ts'

/** As the parser of the client makes them. */
const replyError = (message: string) => Object.assign(new Error(message), { name: 'ReplyError' })

describe('the code of an error', () => {
  // Answers of Redis 6.2.6 and 7.0.15 to a script that writes.
  it.each([
    [
      "ERR Error running script (call to f_63513ef721c1dcd34dc697552e11c6fa5356c64c): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica. ",
      'READONLY',
      'unreachable',
    ],
    [
      "READONLY You can't write against a read only replica. script: 63513ef721c1dcd34dc697552e11c6fa5356c64c, on @user_script:1.",
      'READONLY',
      'unreachable',
    ],
    [
      'ERR Error running script (call to f_63513ef721c1dcd34dc697552e11c6fa5356c64c): @user_script:1: @user_script: 1: -NOREPLICAS Not enough good replicas to write. ',
      'NOREPLICAS',
      'unreachable',
    ],
    ["OOM command not allowed when used memory > 'maxmemory'.", 'OOM', 'failed'],
    [
      'ERR Error running script (call to f_1): @user_script:1: user_script:1: attempt to index',
      'ERR',
      'failed',
    ],
    ['MOVED 3999 127.0.0.1:6381', 'MOVED', 'failed'],
  ])('%s', (message, code, reason) => {
    const error = replyError(message)
    assert.strictEqual(codeOf(error), code)
    assert.strictEqual(toUnavailable(error).reason, reason)
  })
})
