/** Builds the image with Docker or Buildah, and starts each program in it. */
import { execFileSync } from 'node:child_process'
import { ROOT } from '@hub/local-stack'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PROGRAMS } from '../../infra/bundle/bundle.ts'
import { type Found, orSkip } from '../support/external-tools.ts'
import { isIgnored } from './manifests/check-manifests.ts'
import { type ImageBuilder, imageBuilder } from './manifests/image-builder.ts'
import { programInImage, readCode, textOf } from './manifests/parse.ts'

/** A build takes a minute on an idle machine, and several on a busy one. */
const BUILT_WITHIN_MS = 1_200_000

let found: Found<ImageBuilder>
beforeAll(async () => {
  found = await imageBuilder()
}, BUILT_WITHIN_MS)
afterAll(async () => {
  if (found !== undefined && !('missing' in found)) await found.remove()
})

it(
  'the builder gets the files that .dockerignore lets through',
  async (context) => {
    const builder = await orSkip(context, found)
    const got = new Set(await builder.contextFiles())
    const tracked = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).trim().split('\n')
    const dockerignore = textOf('.dockerignore')
    expect(got.size).toBeGreaterThan(0)
    expect(tracked.filter((path) => got.has(path) === isIgnored(dockerignore, path))).toEqual([])
  },
  BUILT_WITHIN_MS,
)

describe('the image', () => {
  beforeAll(async () => {
    if ('missing' in found) return
    const { code, text } = await found.buildImage()
    expect(code, text.slice(-5000)).toBe(0)
  }, BUILT_WITHIN_MS)

  it.for(Object.keys(PROGRAMS).filter((name) => name !== 'hubctl'))(
    'starts %s, which names the missing settings',
    async (name, context) => {
      const { code, text } = await (await orSkip(context, found)).run(programInImage(name))
      expect(code, text).toBe(1)
      expect(text).toContain('HUB_DATABASE_URL is not set')
      expect(text).not.toMatch(/ERR_MODULE_NOT_FOUND|SyntaxError/u)
    },
  )

  it('starts hubctl', async (context) => {
    const { code, text } = await (await orSkip(context, found)).run(programInImage('hubctl'), '--version')
    expect({ code, text: text.trim() }).toEqual({ code: 0, text: `hubctl v${readCode().version}` })
  })

  it('has at most 150 MB, the built console, and no sources of the apps', async (context) => {
    const { code, text } = await (
      await orSkip(context, found)
    ).run(
      '--print',
      `const { globSync, lstatSync } = require('node:fs')
      const files = globSync('/{hub,usr,lib,lib64,etc,var}/**', { withFileTypes: true })
        .filter((file) => file.isFile())
        .map(({ name, parentPath }) => parentPath + '/' + name)
      JSON.stringify({
        bytes: files.reduce((sum, path) => sum + lstatSync(path).size, 0),
        sources: files.filter((path) => /^\\/hub\\/(?:apps|packages)\\/.*\\.ts$/.test(path)),
        console: files.filter((path) => path.startsWith('/hub/apps/console/')),
      })`,
    )
    expect(code, text).toBe(0)
    type Contents = Record<'sources' | 'console', ReadonlyArray<string>> & { readonly bytes: number }
    const { bytes, console: built, sources } = JSON.parse(text) as Contents
    expect(sources).toEqual([])
    expect(built).toContain('/hub/apps/console/dist/index.html')
    expect(bytes).toBeGreaterThan(100_000_000)
    expect(bytes).toBeLessThanOrEqual(150_000_000)
  })

  it('contains each library once, with its licence', async (context) => {
    const builder = await orSkip(context, found)
    const { code, text } = await builder.run(
      '--print',
      `const { globSync } = require('node:fs')
      JSON.stringify({
        packages: globSync('node_modules/{*,@*/*}/package.json').map((path) => path.split('/').slice(1, -1).join('/')),
        effect: globSync('node_modules/effect/**', { withFileTypes: true }).filter((file) => file.isFile()).map(({ name }) => name),
        debian: globSync('/var/lib/dpkg/status.d/*').map((path) => path.split('/').at(-1)),
        undocumented: globSync('/var/lib/dpkg/status.d/*')
          .filter((path) => globSync('/usr/share/doc/' + path.split('/').at(-1) + '/copyright').length === 0),
      })`,
    )
    expect(code, text).toBe(0)
    const contents = JSON.parse(text) as Readonly<Record<string, ReadonlyArray<string>>>
    expect(contents['packages']).toEqual(expect.arrayContaining(['effect', 'ioredis', 'kafkajs', 'postgres']))
    expect(contents['packages']).not.toContain('redis')
    // Its modules are in the bundles.
    expect(contents['effect']?.toSorted()).toEqual(['LICENSE', 'package.json'])
    // What Node links to: `ldd` of Node's own build for Linux.
    expect(contents['debian']?.toSorted()).toEqual(['libc6', 'libgcc-s1', 'libstdc++6'])
    expect(contents['undocumented']).toEqual([])
  })

  it('lists Node and each package of Debian in its bill of materials', async (context) => {
    const { code, text } = await (
      await orSkip(context, found)
    ).run(
      '--print',
      `const { globSync, readFileSync } = require('node:fs')
      const bill = JSON.parse(readFileSync('sbom.cdx.json', 'utf8')).components
      const fields = (text) => Object.fromEntries(text.split('\\n').map((line) => line.split(': ')))
      JSON.stringify({
        listed: bill.filter(({ purl }) => purl?.startsWith('pkg:deb/debian/')).map(({ name, version }) => [name, version]),
        installed: globSync('/var/lib/dpkg/status.d/*').map((path) => fields(readFileSync(path, 'utf8')))
          .map(({ Package, Version }) => [Package, Version]),
        release: bill.find(({ type }) => type === 'operating-system'),
        node: bill.find(({ purl }) => purl === 'pkg:generic/node@' + process.versions.node)?.hashes,
        program: require('node:crypto').createHash('sha256').update(readFileSync(process.execPath)).digest('hex'),
      })`,
    )
    expect(code, text).toBe(0)
    const contents = JSON.parse(text)
    expect(contents.installed.length).toBeGreaterThan(2)
    expect(contents.listed).toEqual(contents.installed.toSorted())
    expect(contents.release).toMatchObject({ name: 'debian', version: '13' })
    expect(contents.node).toEqual([{ alg: 'SHA-256', content: contents.program }])
  })
})
