import { globSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { anchorsOf, brokenLinks } from './links.ts'

const ROOT = join(import.meta.dirname, '../..')

/** All markdown files, without dependencies and hidden folders. */
const files = globSync('**/*.md', {
  cwd: ROOT,
  exclude: (path) => /(?:^|\/)(?:node_modules|\..+)(?:\/|$)/u.test(path),
})

describe('markdown links', () => {
  it('point to existing files and headings in all pages', () => {
    expect(files.length).toBeGreaterThan(50)
    expect(files.flatMap((file) => brokenLinks(ROOT, file))).toEqual([])
  })

  it('find headings by the anchors of GitHub', () => {
    const page = '# Where `x` is: a / b\n\n## Live keys\n\n```sh\n# no heading\n```\n\n## Live keys\n'
    expect([...anchorsOf(page)]).toEqual(['where-x-is-a--b', 'live-keys', 'live-keys-1'])
  })
})
