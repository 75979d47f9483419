import { assert, describe, it } from '@effect/vitest'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { applyMutation } from './apply.ts'
import { MUTATIONS, ROOT } from './mutations.ts'
import { rowsOf, rowsOnPage } from './page.ts'

describe('the mutations', () => {
  it('each change the current code', () => {
    for (const mutation of MUTATIONS) applyMutation(readFileSync(join(ROOT, mutation.file), 'utf8'), mutation)
  })

  it('have their results in docs/mutations.md', () => {
    const compact = (row: string) => row.replaceAll(/\s+/gu, ' ').trim()
    assert.deepStrictEqual(rowsOnPage().map(compact), rowsOf().map(compact), 'run npm run generate')
  })

  it('have different names', () => {
    assert.strictEqual(new Set(MUTATIONS.map(({ name }) => name)).size, MUTATIONS.length)
  })
})
