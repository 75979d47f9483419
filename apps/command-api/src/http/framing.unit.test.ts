import { description } from '@hub/contract'
import { FRAMING_MESSAGES } from '@hub/http-server'
import { assert, describe, it } from 'vitest'

describe('the API description', () => {
  // Rules: VER-6, ERR-19
  it('declares for each operation every status of malformed HTTP', () => {
    const paths = description()['paths'] as Readonly<
      Record<string, Readonly<Record<string, { responses: object }>>>
    >
    const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
    assert.isNotEmpty(operations)
    for (const { responses } of operations) assert.containsAllKeys(responses, Object.keys(FRAMING_MESSAGES))
  })
})
