import { assert, describe, it } from '@effect/vitest'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MUTATIONS, ROOT } from './mutations.ts'
import { rowsOf, rowsOnPage } from './page.ts'

describe('the mutations', () => {
  it('each change exactly one text of the current code', () => {
    for (const { file, find, name, replace } of MUTATIONS) {
      const parts = readFileSync(join(ROOT, file), 'utf8').split(find)
      assert.lengthOf(parts, 2, name)
      assert.notStrictEqual(find, replace, name)
    }
  })

  it('have their results in docs/mutations.md', () => {
    const compact = (row: string) => row.replaceAll(/\s+/gu, ' ').trim()
    assert.deepStrictEqual(rowsOnPage().map(compact), rowsOf().map(compact), 'run npm run generate')
  })

  it('have different names', () => {
    assert.strictEqual(new Set(MUTATIONS.map(({ name }) => name)).size, MUTATIONS.length)
  })
})
