import { assert, describe, it } from '@effect/vitest'
import { readFileSync } from 'node:fs'
import { analyticsReference, REFERENCE_BEGINS, TOPIC_CONTENT, withReference } from './analytics-reference.ts'
import { RECORD_NAMES } from './schemas.ts'

const page = readFileSync(new URL('../../../../docs/analytics.md', import.meta.url), 'utf8')

/** Removes the differences that a formatter makes. */
const plain = (text: string): ReadonlyArray<string> =>
  text
    .split('\n')
    .map((line) => line.replaceAll(/-{2,}/g, '--').replaceAll(/\s+/g, ' ').trim())
    .filter((line) => line !== '')

describe('docs/analytics.md', () => {
  it('matches the schemas; otherwise run npm run generate', () => {
    assert.deepStrictEqual(plain(page), plain(withReference(page)))
  })

  it('describes every record type once, with its topics', () => {
    for (const name of RECORD_NAMES) {
      assert.strictEqual(page.split(`\n### ${name}\n`).length, 2, name)
      assert.isTrue(
        Object.values(TOPIC_CONTENT).some(({ records }) => records.includes(name)),
        name,
      )
    }
  })

  it('differs if the page is outdated', () => {
    const old = page.replace('When it happened', 'When')
    assert.notDeepEqual(plain(old), plain(withReference(old)))
    assert.throws(() => withReference('no place'), /no place for the reference/)
    assert.isFalse(analyticsReference().includes(REFERENCE_BEGINS))
  })
})
