import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ensureJars, findMismatch, STACK_JARS } from './jars.ts'

const pin = (content: string): string => createHash('sha256').update(content).digest('hex')

let dir = ''
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'hub-jars-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

describe('downloads', () => {
  it('are used only if all files match their checksums and no other file exists', async () => {
    await writeFile(join(dir, 'a.jar'), 'a')
    await writeFile(join(dir, 'b.jar'), 'b')
    const expected = new Map([
      ['a.jar', pin('a')],
      ['b.jar', pin('b')],
    ])
    expect(await findMismatch(dir, expected)).toBeNull()
    await writeFile(join(dir, 'b.jar'), 'tampered')
    expect(await findMismatch(dir, expected)).toMatch(/^b\.jar is not the file that was pinned/u)
    await rm(join(dir, 'b.jar'))
    expect(await findMismatch(dir, expected)).toBe('b.jar is missing')
    await writeFile(join(dir, 'b.jar'), 'b')
    await writeFile(join(dir, 'c.jar'), 'c')
    expect(await findMismatch(dir, expected)).toBe('c.jar is not expected')
  })

  it('fail without Maven and say how to install it', async () => {
    const empty = join(dir, 'empty-cache')
    const fetching = ensureJars(
      STACK_JARS,
      empty,
      { PATH: '/nowhere' },
      () => {},
      new AbortController().signal,
    )
    await expect(fetching).rejects.toThrow(/^Maven is needed once.*apt install maven/u)
  })
})
