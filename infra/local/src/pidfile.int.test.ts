import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  processStartTime,
  lockPidFile,
  isAlive,
  type PidFile,
  readPidFile,
  readPidFiles,
  writePidFile,
} from './pidfile.ts'
import { stopLeftoverProcesses, launch } from './processes.ts'

let dir = ''
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'hub-pid-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

/** A process that lives until it is killed. */
const SLEEPER = ['-e', 'setInterval(() => {}, 1_000_000)']
/** A process that ignores SIGTERM. It prints a line when its handler is installed. */
const STUBBORN = ['-e', "process.on('SIGTERM', () => {}); console.log('ready'); setInterval(() => {}, 1e6)"]

const identify = async (name: string, pid: number): Promise<PidFile> => {
  const began = await processStartTime(pid)
  if (began === null) throw new Error('the process does not run')
  return { name, pid, began, stopSignal: 'SIGTERM' }
}

describe('a process', () => {
  it('is alive until it ends, and differs from another process with its id', async () => {
    const child = spawn(process.execPath, SLEEPER)
    await once(child, 'spawn')
    const file = await identify('sleeper', child.pid ?? 0)
    expect(await isAlive(file)).toBe(true)
    expect(await isAlive({ ...file, began: 'another boot/1' })).toBe(false)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(await isAlive(file)).toBe(false)
  })
})

describe('leftover processes', () => {
  it('are stopped, also if they ignore SIGTERM, but not unrelated processes with a recorded id', async () => {
    const run = join(dir, 'leftovers')
    const polite = await launch({
      name: 'polite',
      command: process.execPath,
      args: SLEEPER,
      log: join(dir, 'polite.log'),
      runDir: run,
    })
    const stubborn = spawn(process.execPath, STUBBORN, {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    await once(stubborn.stdout, 'data')
    writePidFile(run, await identify('stubborn', stubborn.pid ?? 0))
    const stubbornEnded = once(stubborn, 'exit')
    const stranger = spawn(process.execPath, SLEEPER)
    await once(stranger, 'spawn')
    writePidFile(run, {
      name: 'reused',
      pid: stranger.pid ?? 0,
      began: 'an earlier process',
      stopSignal: 'SIGTERM',
    })

    const ended = await stopLeftoverProcesses(run, 200)

    expect([...ended].sort()).toEqual(['polite', 'stubborn'])
    expect(await polite.exited).toEqual({ code: null, signal: 'SIGTERM' })
    expect(await stubbornEnded).toEqual([null, 'SIGKILL'])
    expect(stranger.exitCode).toBeNull()
    expect(await processStartTime(stranger.pid ?? 0)).not.toBeNull()
    expect(readPidFiles(run)).toEqual([])
    stranger.kill('SIGKILL')
    await once(stranger, 'exit')
  })
})

describe('a locked pid file', () => {
  it('is held by one running process and taken over from an ended one', async () => {
    const run = join(dir, 'claims')
    const holder = spawn(process.execPath, SLEEPER)
    await once(holder, 'spawn')
    const first = await identify('supervisor', holder.pid ?? 0)
    expect(await lockPidFile(run, first)).toBeNull()
    const mine = await identify('supervisor', process.pid)
    expect(await lockPidFile(run, mine)).toEqual(first)
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    expect(await lockPidFile(run, mine)).toBeNull()
    expect(readPidFile(run, 'supervisor')).toEqual(mine)
  })
})
