/** Crash points, as a process reaches them. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'crash-points-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Reaches a point twice in a process, and returns the results. */
const reachTwice = (environment: Readonly<Record<string, string>>) => {
  const program = `
    import { crashPoint } from '@hub/crash-points'
    import { Effect } from 'effect'
    const at = crashPoint('dispatcher.submitted', () => 'failed')
    for (const _ of [1, 2]) console.log(Effect.runSync(Effect.catch(at(Effect.succeed('done')), Effect.succeed)))`
  const { signal, stderr, stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: import.meta.dirname,
    env: { PATH: process.env['PATH'], HUB_CRASH_POINTS: folder, ...environment },
    encoding: 'utf8',
  })
  return { signal, stderr, results: stdout.trim().split('\n') }
}
const arm = (fault: string) => writeFileSync(join(folder, 'dispatcher.submitted.armed'), fault)
const isReached = () => existsSync(join(folder, 'dispatcher.submitted.reached'))

const DEVELOPMENT = { HUB_DEPLOYMENT: 'development' }

describe('a crash point', () => {
  it('does nothing while it is not armed', () => {
    expect(reachTwice(DEVELOPMENT)).toEqual({ signal: null, stderr: '', results: ['done', 'done'] })
  })

  it('that is armed with a reported failure reports it once', () => {
    arm('reported-failure')
    expect(reachTwice(DEVELOPMENT)).toMatchObject({ results: ['failed', 'done'] })
    expect(isReached()).toBe(true)
  })

  it('that is armed with a kill ends the process at once', () => {
    arm('kill')
    expect(reachTwice(DEVELOPMENT)).toMatchObject({ signal: 'SIGKILL', results: [''] })
    expect(isReached()).toBe(true)
  })

  it('does nothing in production, also when the folder is set', () => {
    arm('kill')
    for (const environment of [{}, { HUB_DEPLOYMENT: 'production' }]) {
      expect(reachTwice(environment)).toMatchObject({ signal: null, results: ['done', 'done'] })
    }
    expect(isReached()).toBe(false)
  })
})
