/** Which copies of `node_modules` a start accepts, and when it installs the packages again. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '..')

/** The lock of a project with one workspace, in the form of npm 11 (`lockfileVersion` 3). */
const LOCK = {
  name: 'project',
  lockfileVersion: 3,
  packages: {
    '': { name: 'project', workspaces: ['packages/*'] },
    'node_modules/node': { version: '24.21.0' },
    'node_modules/part': { resolved: 'packages/part', link: true },
    'packages/part': { version: '1.0.0' },
  },
}

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'checkouts-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const write = (path: string, text: string, mode = 0o644): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text, { mode })
}

/** A checkout without packages. */
const clone = (name: string): string => {
  const checkout = join(folder, name)
  for (const file of ['run.mjs', 'prerequisites.mjs'])
    cpSync(join(ROOT, 'scripts', file), join(checkout, 'scripts', file))
  write(join(checkout, 'package-lock.json'), JSON.stringify(LOCK))
  write(join(checkout, 'packages/part/index.ts'), '')
  return checkout
}

/** What npm writes, with a program in the place of Node. */
const install = (checkout: string): void => {
  write(join(checkout, 'node_modules/.package-lock.json'), JSON.stringify(LOCK))
  write(join(checkout, 'node_modules/node/bin/node'), '#!/bin/sh\necho started\n', 0o755)
  symlinkSync('../packages/part', join(checkout, 'node_modules/part'))
}

const shell = (...[command, ...words]: readonly [string, ...ReadonlyArray<string>]) =>
  expect(spawnSync(command, words, { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' })

/** The first line of a start. No npm is on the PATH, so an installation fails at once. */
const start = (checkout: string): string => {
  const { stderr, stdout } = spawnSync(
    process.execPath,
    [join(checkout, 'scripts/run.mjs'), 'scripts/program.ts'],
    { encoding: 'utf8', env: { PATH: '/usr/bin:/bin', npm_execpath: '/nowhere/npm.js' } },
  )
  return (stdout + stderr).split('\n')[0]!
}

describe('a checkout whose node_modules was copied from another one', () => {
  it('starts if its links lead into the checkout', () => {
    const [one, other] = [clone('one'), clone('other')]
    install(one)
    shell('cp', '-r', join(one, 'node_modules'), join(other, 'node_modules'))
    expect(start(other)).toBe('started')
  })

  it('installs again if the copy is inside of its own node_modules', () => {
    const [one, other] = [clone('one'), clone('other')]
    install(one)
    install(other)
    // `cp -r` puts a folder into a destination that exists.
    shell('cp', '-r', join(one, 'node_modules'), join(other, 'node_modules'))
    expect(start(other)).toBe('Installing npm packages (node_modules contains a copy of node_modules) …')
  })

  it('installs again if the copy contains copies of the workspaces', () => {
    const [one, other] = [clone('one'), clone('other')]
    install(one)
    shell('cp', '-rL', join(one, 'node_modules'), join(other, 'node_modules'))
    expect(start(other)).toBe(
      'Installing npm packages (node_modules/part is not the folder packages/part of this checkout) …',
    )
  })

  it('installs again if it is a link to another checkout, whose packages remain', () => {
    const [one, other] = [clone('one'), clone('other')]
    install(one)
    symlinkSync(join(one, 'node_modules'), join(other, 'node_modules'))
    expect(start(other)).toMatch(/^Installing npm packages \(node_modules\/part is not the folder/u)
    expect(existsSync(join(other, 'node_modules'))).toBe(false)
    expect(start(one)).toBe('started')
  })
})
