import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { licenceProblems, PAGE, thirdPartyPage } from './licences.ts'
import { differenceOf, isCopied } from './install.ts'
import { loadedFolders, type Lock, productionPackages, PROGRAMS, readLock, ROOT } from './packages.ts'
import { debianComponent, nodeComponent, releaseComponent } from './runtime.ts'
import { billOfMaterials } from './sbom.ts'

const lock = readLock(join(ROOT, 'package-lock.json'))

/** A program and a library that need different versions of a package, and a tool. */
const smallLock: Lock = {
  'node_modules/@hub/app': { resolved: 'apps/app', link: true },
  'apps/app': { name: '@hub/app', version: '1.0.0', dependencies: { lib: '1.0.0', low: '2.0.0' } },
  'node_modules/lib': {
    version: '1.0.0',
    license: 'MIT',
    integrity: 'sha512-AAAA',
    dependencies: { low: '1.0.0' },
    optionalDependencies: { elsewhere: '1.0.0' },
    peerDependencies: { peer: '1.0.0', whoever: '1.0.0' },
    peerDependenciesMeta: { whoever: { optional: true } },
  },
  'node_modules/lib/node_modules/low': { version: '1.0.0', license: 'ISC', integrity: 'sha512-AAAA' },
  'node_modules/low': { version: '2.0.0', license: 'MIT', integrity: 'sha512-AAAA' },
  'node_modules/peer': { version: '1.0.0', license: 'MIT', integrity: 'sha512-AAAA' },
  'node_modules/tool': { version: '1.0.0', license: 'MPL-2.0', integrity: 'sha512-AAAA' },
}
const smallPackages = () => productionPackages(smallLock, ['apps/app'])

describe('the packages of the image', () => {
  it('are the dependencies of its programs, resolved as Node resolves them', () => {
    expect(smallPackages().map(({ dependsOn, path }) => [path, dependsOn])).toEqual([
      ['apps/app', ['node_modules/lib', 'node_modules/low']],
      ['node_modules/lib', ['node_modules/lib/node_modules/low', 'node_modules/peer']],
      ['node_modules/lib/node_modules/low', []],
      ['node_modules/low', []],
      ['node_modules/peer', []],
    ])
  })

  it('cannot be read from a lock without a required package', () => {
    const { 'node_modules/peer': _, ...damaged } = smallLock
    expect(() => productionPackages(damaged, ['apps/app'])).toThrow(
      'no peer, which node_modules/lib depends on',
    )
  })

  it('include each program and no tool', () => {
    const packages = productionPackages(lock)
    expect(packages.map(({ path }) => path)).toEqual(expect.arrayContaining([...PROGRAMS]))
    expect(packages.map(({ name }) => name)).not.toContain('vitest')
  })

  it('include nothing that a bundled library needs only in parts that no program uses', () => {
    // Effect's client of Redis needs `redis`. The hub uses ioredis.
    expect(lock['node_modules/@effect/platform-node']?.peerDependencies).toHaveProperty('redis')
    const names = productionPackages(lock).map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining(['@effect/platform-node', 'ioredis', 'ws']))
    expect(names.filter((name) => name === 'redis' || name.startsWith('@types/'))).toEqual([])
  })

  it('are in node_modules only if programs load them', () => {
    const loaded = loadedFolders(lock)
    expect(loaded).toContain('node_modules/kafkajs')
    expect(loaded).toContain('node_modules/oauth4webapi')
    expect([...loaded].filter((path) => /effect|preact/u.test(path))).toEqual([])
  })
})

describe('the lock file', () => {
  it('has a digest for each package, also for those of other platforms', () => {
    const withoutDigest = Object.entries(lock)
      .filter(([path, entry]) => path.includes('node_modules/') && entry.link !== true)
      .filter(([, { integrity }]) => integrity === undefined)
    expect(withoutDigest.map(([path]) => path)).toEqual([])
  })
})

describe('the bill of materials', () => {
  it('lists each package once, with its digest, licence and dependencies', () => {
    const packages = productionPackages(lock)
    const bill = billOfMaterials(packages, '1.0.0')
    const refs = new Set(bill.components.map((component) => component['bom-ref']))
    expect(refs.size).toBe(packages.length)
    for (const component of bill.components.filter(({ type }) => type === 'library')) {
      expect(component).toMatchObject({ licenses: [expect.anything()], hashes: [{ alg: 'SHA-512' }] })
      expect(component.hashes?.[0]?.content).toMatch(/^[0-9a-f]{128}$/u)
    }
    for (const { dependsOn } of bill.dependencies) for (const ref of dependsOn) expect(refs).toContain(ref)
    expect(bill.components.map(({ purl }) => purl)).toContain(
      `pkg:npm/effect@${lock['node_modules/effect']?.version}`,
    )
    expect(bill.components.map(({ purl }) => purl)).toContain('pkg:npm/%40hub/dispatcher@0.4.0')
  })

  it('is equal for equal locks and different for different ones', () => {
    const bill = billOfMaterials(smallPackages(), '1.0.0')
    expect(billOfMaterials(smallPackages(), '1.0.0')).toEqual(bill)
    const other = productionPackages({ ...smallLock, 'node_modules/low': { version: '2.0.1' } }, ['apps/app'])
    expect(billOfMaterials(other, '1.0.0').serialNumber).not.toBe(bill.serialNumber)
  })
})

describe('the bill of materials of Node and of Debian', () => {
  // /etc/os-release of Debian 12, shortened.
  const release = releaseComponent(`PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION="12 (bookworm)"
ID=debian
`)

  it('names the release as scanners do', () => {
    expect(release).toMatchObject({ type: 'operating-system', name: 'debian', version: '12' })
  })

  it.each([
    // The status of dpkg in node:23-slim, shortened, and the package URL that Docker Scout prints for it.
    [
      `Package: libc6
Status: install ok installed
Architecture: arm64
Multi-Arch: same
Source: glibc
Version: 2.36-9+deb12u9
`,
      'pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=arm64&distro=debian-12&upstream=glibc',
    ],
    [
      `Package: libstdc++6
Architecture: arm64
Source: gcc-12
Version: 12.2.0-14
`,
      'pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=arm64&distro=debian-12&upstream=gcc-12',
    ],
    // The name of the source is the name of the package, and the version has an epoch.
    [
      `Package: zlib1g
Architecture: amd64
Version: 1:1.2.13
`,
      'pkg:deb/debian/zlib1g@1%3A1.2.13?arch=amd64&distro=debian-12',
    ],
    // The source has another version.
    [
      `Package: libgcc-s1
Architecture: amd64
Source: gcc-12 (12.2.0-14)
Version: 12.2.0-14+b1
`,
      'pkg:deb/debian/libgcc-s1@12.2.0-14%2Bb1?arch=amd64&distro=debian-12&upstream=gcc-12',
    ],
  ])('names a package of Debian as scanners do %#', (status, purl) => {
    expect(debianComponent(status, release)).toMatchObject({ type: 'library', purl, 'bom-ref': purl })
  })

  it('has the digest of the program of Node', () => {
    // `printf abc | sha256sum`: the first example of FIPS 180-2.
    const folder = mkdtempSync(join(tmpdir(), 'hub-supply-'))
    try {
      writeFileSync(join(folder, 'node'), 'abc')
      expect(nodeComponent(join(folder, 'node'), '24.1.2')).toMatchObject({
        purl: 'pkg:generic/node@24.1.2',
        cpe: 'cpe:2.3:a:nodejs:node.js:24.1.2:*:*:*:*:*:*:*',
        hashes: [
          {
            alg: 'SHA-256',
            content: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
          },
        ],
      })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

describe('the installed packages', () => {
  it('are compared with the lock file', () => {
    expect(differenceOf(smallPackages(), smallLock)).toBeNull()
    const low = { ...smallLock['node_modules/low'], version: '3.0.0' }
    expect(differenceOf(smallPackages(), { ...smallLock, 'node_modules/low': low })).toContain(
      'node_modules/low is installed in another version',
    )
    const { 'node_modules/peer': _, ...less } = smallLock
    expect(differenceOf(smallPackages(), less)).toContain('node_modules/peer is needed and not installed')
  })

  it.each([
    ['dist/index.js', true, true],
    ['dist/index.js.map', true, false],
    ['dist/index.d.mts', true, false],
    ['node_modules/inner/index.js', true, false],
    ['package.json', false, true],
    ['LICENSE', false, true],
    ['LICENSE.md', false, true],
    ['dist', false, false],
    ['src/package.json', false, false],
  ])('of %s, loaded %s: copied %s', (file, isLoaded, expected) => {
    expect(isCopied(file, isLoaded)).toBe(expected)
  })
})

describe('licences', () => {
  it('of all packages are allowed', () => {
    expect(licenceProblems(lock)).toEqual([])
  })

  it('are listed in THIRD-PARTY.md; node infra/supply/licences.ts writes it', () => {
    expect(readFileSync(PAGE, 'utf8')).toBe(thirdPartyPage(lock))
  })

  it('are reported if they are not allowed, missing, or allowed only for tools', () => {
    const effect = lock['node_modules/effect'] ?? {}
    const { license: _, ...without } = effect
    const problems = (entry: Lock[string], path = 'node_modules/effect') =>
      licenceProblems({ ...lock, [path]: entry })
    expect(problems({ ...effect, license: 'AGPL-3.0-only' })).toEqual([
      `effect ${effect.version} is in the image under AGPL-3.0-only`,
    ])
    expect(problems(without)).toEqual([`effect ${effect.version} is in the image under no licence`])
    expect(problems({ ...effect, license: 'MPL-2.0' })).toHaveLength(1)
    expect(problems({ version: '1.0.0', license: 'BUSL-1.1' }, 'node_modules/tool')).toEqual([
      'tool 1.0.0 is among the tools under BUSL-1.1',
    ])
  })
})
