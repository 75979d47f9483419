/** What the image is built from: the sources that the builder gets, and the packages that the bundles load. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Bundled, bundlePrograms, differenceOfPackages, PROGRAMS } from '../../infra/bundle/bundle.ts'
import { isIgnored } from './manifests/check-manifests.ts'
import { textOf } from './manifests/parse.ts'

const CACHE = join(ROOT, 'node_modules/.cache')
mkdirSync(CACHE, { recursive: true })
const folder = mkdtempSync(join(CACHE, 'image-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the bundles of the image', () => {
  let bundled: Bundled
  beforeAll(async () => {
    bundled = await bundlePrograms(PROGRAMS, ROOT, folder)
  })

  it('consist of files that .dockerignore lets into the builder', () => {
    // The main module of a program is the first of its files.
    expect(bundled.sources).toEqual(expect.arrayContaining(Object.values(PROGRAMS)))
    const dockerignore = textOf('.dockerignore')
    expect(bundled.sources.filter((path) => isIgnored(dockerignore, path))).toEqual([])
  })

  it('are the same if they are built in another folder', async () => {
    const other = mkdtempSync(join(tmpdir(), 'hub-bundles-'))
    try {
      await bundlePrograms(PROGRAMS, ROOT, other, folder)
      const files = readdirSync(folder).toSorted()
      expect(files.length).toBeGreaterThan(Object.keys(PROGRAMS).length)
      expect(readdirSync(other).toSorted()).toEqual(files)
      for (const file of files) {
        expect(readFileSync(join(other, file)).equals(readFileSync(join(folder, file))), file).toBe(true)
      }
    } finally {
      rmSync(other, { recursive: true, force: true })
    }
  })

  it('load the packages that the image has, and no others', () => {
    expect(differenceOfPackages(bundled.packages)).toBeNull()
    expect(differenceOfPackages([...bundled.packages, 'redis'])).toContain('A program loads redis')
    expect(differenceOfPackages(bundled.packages.slice(1))).toContain('No program loads avsc')
  })
})
