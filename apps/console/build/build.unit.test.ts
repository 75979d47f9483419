/** The built files: their size, and what the policy of the API requires of them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildConsole, consoleHash } from './build.ts'

/** The first page must be there in a second, also over a slow connection. */
const MAX_COMPRESSED_BYTES = 150_000

let folder = ''
let files: ReadonlyMap<string, string> = new Map()
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'console-'))
  await buildConsole(folder)
  files = new Map(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => {
        const path = join(entry.parentPath, entry.name)
        return [path.slice(folder.length), readFileSync(path, 'utf8')]
      }),
  )
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the built console', () => {
  it('has at most 150 kB, compressed', () => {
    const bytes = [...files.values()].reduce((sum, content) => sum + gzipSync(content).length, 0)
    expect(bytes).toBeGreaterThan(10_000)
    expect(bytes).toBeLessThan(MAX_COMPRESSED_BYTES)
  })

  it('is one page with files of its own', () => {
    const page = files.get('/index.html') ?? ''
    const addresses = [...page.matchAll(/(?:src|href)="([^"]*)"/gu)].map(([, address]) => address ?? '')
    expect(addresses.length).toBeGreaterThanOrEqual(3)
    for (const address of addresses) expect([...files.keys()]).toContain(address)
  })

  it('has no inline script and no inline style, which the policy forbids', () => {
    const page = files.get('/index.html') ?? ''
    expect(page).not.toMatch(/<script(?![^>]*\ssrc=)/u)
    expect(page).not.toMatch(/<style|\sstyle=|\son[a-z]+=/u)
  })

  it('calls no other host and evaluates no text', () => {
    const code = [...files].filter(([path]) => path.endsWith('.js')).map(([, content]) => content)
    expect(code).toHaveLength(1)
    // Names of XML namespaces are no addresses that a browser opens.
    const hosts = [...code.join('').matchAll(/https?:\/\/[a-z0-9.-]+/giu)].map(([address]) => address)
    expect(hosts.filter((address) => address !== 'http://www.w3.org')).toEqual([])
    expect(code.join('')).not.toMatch(/\beval\(|new Function\(/u)
  })

  it('uses no text as HTML', () => {
    const sources = join(import.meta.dirname, '../src')
    const found = readdirSync(sources, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/u.test(name) && !name.includes('.test.'))
      .filter((name) =>
        /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write/u.test(
          readFileSync(join(sources, name), 'utf8'),
        ),
      )
    expect(found).toEqual([])
  })

  it('has a name that changes only with its sources', () => {
    expect(consoleHash()).toMatch(/^[0-9a-f]{16}$/u)
    expect(consoleHash()).toBe(consoleHash())
  })
})

describe('the style', () => {
  it('has sizes of texts and spaces only from its scale', () => {
    const css = readFileSync(join(import.meta.dirname, '../src/styles.css'), 'utf8')
    const declared = [...css.matchAll(/^\s*(font-size|gap|(?:margin|padding)[a-z-]*):\s*([^;]+);/gmu)].map(
      ([, property, value]) => `${property}: ${value}`,
    )
    expect(declared.length).toBeGreaterThan(50)
    // 1px overlaps a border, and vh centers the page of the sign-in.
    const scaled = /^[a-z-]+: (?:(?:var\(--(?:space|text)-\d\)|0|auto|-?1px|12vh)\s?)+$/u
    expect(declared.filter((one) => !scaled.test(one))).toEqual([])
  })
})
