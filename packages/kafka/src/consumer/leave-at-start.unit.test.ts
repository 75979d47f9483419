import { assert, describe, it } from '@effect/vitest'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The files (including itself) and packages that a file loads, without type imports. */
const loadedBy = (
  entry: URL,
): { readonly files: ReadonlySet<string>; readonly packages: ReadonlySet<string> } => {
  const files = new Set<string>()
  const packages = new Set<string>()
  const visit = (file: URL): void => {
    if (files.has(file.pathname)) return
    files.add(file.pathname)
    const text = readFileSync(file, 'utf8')
    for (const [, clause = '', name = ''] of text.matchAll(
      /^(?:import|export)\b([^'"]*?)(?:from )?'([^']+)'/gmu,
    )) {
      if (/^\s+type\b/u.test(clause)) continue
      if (name.startsWith('.')) visit(new URL(name, file))
      else if (name.startsWith('@hub/')) visit(new URL(import.meta.resolve(name)))
      else packages.add(name)
    }
  }
  visit(entry)
  return { files, packages }
}

describe('leave-at-start', () => {
  it('loads only parts of effect, and of the hub only the settings and the client', () => {
    const { files, packages } = loadedBy(new URL('./leave-at-start.ts', import.meta.url))
    assert.include([...packages], 'effect/Config')
    assert.include([...packages], 'kafkajs')
    assert.isFalse(
      packages.has('effect'),
      'the whole package effect takes longer to load than everything else',
    )
    const root = fileURLToPath(new URL('../../../../', import.meta.url))
    assert.sameMembers(
      [...new Set([...files].map((file) => file.slice(root.length).split('/').slice(0, 2).join('/')))],
      ['packages/kafka', 'packages/config'],
    )
    // The two packages have more than eighty files.
    assert.isAtMost(files.size, 35)
  })
})
