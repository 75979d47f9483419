/**
 * Checks `npm start` and `npm stop` as a user runs them: their output, the started processes, and
 * that nothing is left behind.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import {
  processStartTime,
  freePortBase,
  type HubDescription,
  PORT_PLAN,
  portsAt,
  stopProcessesOf,
  removeData,
  ROOT,
} from '@hub/local-stack'
import { accepts, eventually } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const MAIN = join(ROOT, 'infra/local/src/main.ts')

let dataDir = ''
let base = 0

beforeAll(async () => {
  // With spaces, which each program must keep as one word.
  dataDir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), "a hub's data "))
  chmodSync(dataDir, 0o755)
  base = await freePortBase()
})
afterAll(async () => {
  // In case a test failed.
  await stopProcessesOf(dataDir, 30_000)
  removeData(dataDir)
})

interface Run {
  readonly child: ChildProcess
  readonly output: () => string
  readonly ended: Promise<number | null>
}

const run = (words: ReadonlyArray<string>, environment: Readonly<Record<string, string>> = {}): Run => {
  const own = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('HUB_') || name === 'HUB_CACHE_DIR',
  )
  const child = spawn(process.execPath, [MAIN, ...words], {
    cwd: ROOT,
    env: {
      ...Object.fromEntries(own),
      HUB_DATA_DIR: dataDir,
      HUB_PORT_BASE: String(base),
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const keep = (chunk: Buffer): void => {
    output += chunk.toString('utf8')
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  return {
    child,
    output: () => output,
    ended: once(child, 'close').then(([code]) => code as number | null),
  }
}

const finish = async (started: Run): Promise<{ code: number | null; output: string }> => {
  const code = await started.ended
  return { code, output: started.output() }
}

const description = (): HubDescription =>
  JSON.parse(readFileSync(join(dataDir, 'hub.json'), 'utf8')) as HubDescription

/**
 * Returns the id of a process. Ids of 0 or less would mean whole process groups, including this
 * one.
 */
const pidOf = (hub: HubDescription, name: string): number => {
  const pid = hub.pids[name]
  if (pid === undefined || pid <= 1) throw new Error(`hub.json names no process for ${name}`)
  return pid
}

/** Whether a process runs. A zombie process does not. */
const isRunning = async (pid: number): Promise<boolean> => (await processStartTime(pid)) !== null

const running = async (pids: ReadonlyArray<number>): Promise<ReadonlyArray<number>> =>
  (await Promise.all(pids.map(async (pid) => ((await isRunning(pid)) ? [pid] : [])))).flat()

/** Whether all ports of the plan are free. */
const allPortsFree = async (): Promise<boolean> => {
  const ports = Object.values(portsAt(base))
  const free = await Promise.all(
    ports.map(
      (port) =>
        new Promise<boolean>((resolve) => {
          const server = createServer()
          server.once('error', () => resolve(false))
          server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
        }),
    ),
  )
  return free.every(Boolean)
}

const expectNothingLeft = async (pids: ReadonlyArray<number>): Promise<void> => {
  expect(await running(pids)).toEqual([])
  expect(await allPortsFree()).toBe(true)
  expect(existsSync(join(dataDir, 'hub.json'))).toBe(false)
}

describe('npm start explains in one sentence', () => {
  it('a port in use, and the setting that changes it', async () => {
    const squatter = createServer()
    const { kafka } = portsAt(base)
    await new Promise<void>((resolve) => squatter.listen(kafka, '127.0.0.1', resolve))
    const { code, output } = await finish(run(['start', '--detach']))
    await new Promise((resolve) => squatter.close(resolve))
    expect(code).toBe(1)
    expect(output.trim().split('\n')).toHaveLength(1)
    expect(output).toContain(`Port ${kafka} (${PORT_PLAN.kafka.what}) is taken`)
    expect(output).toContain('HUB_PORT_BASE')
    expect(await allPortsFree()).toBe(true)
  })

  it('missing Java, and how to install it', async () => {
    const { code, output } = await finish(run(['start', '--detach'], { PATH: dataDir, JAVA_HOME: '' }))
    expect(code).toBe(1)
    expect(output).toMatch(/^Kafka needs Java 17 or newer and there is none: install one .*JAVA_HOME/mu)
    expect(await allPortsFree()).toBe(true)
  })

  it('missing Maven before anything is installed or started', async () => {
    const cache = join(dataDir, 'empty cache')
    // A folder with Java only.
    const bin = join(dataDir, 'bin')
    mkdirSync(bin)
    const java = process.env['PATH']
      ?.split(':')
      .map((folder) => join(folder, 'java'))
      .find((path) => existsSync(path))
    symlinkSync(java!, join(bin, 'java'))
    const { code, output } = await finish(
      run(['start', '--detach'], { PATH: bin, HUB_CACHE_DIR: cache, JAVA_HOME: '' }),
    )
    expect(code).toBe(1)
    expect(output).toMatch(/^Maven is needed once to fetch Kafka and Redis, .+install it/mu)
    expect(output).not.toContain('answers after')
    expect(existsSync(join(dataDir, 'postgres'))).toBe(false)
    expect(await allPortsFree()).toBe(true)
  })

  it('an invalid setting', async () => {
    const { code, output } = await finish(run(['start'], { HUB_PORT_BASE: 'seven' }))
    expect(code).toBe(1)
    expect(output.trim()).toBe('HUB_PORT_BASE must be a whole number, such as 7300; it is "seven".')
  })

  it('a mistyped setting', async () => {
    const { code, output } = await finish(run(['start'], { HUB_PORT_BSE: '1', HUB_PORT_BASE: 'seven' }))
    expect(code).toBe(1)
    expect(output).toContain('HUB_PORT_BSE is no setting of the hub and has no effect; HUB_PORT_BASE is')
  })

  it('an unknown argument', async () => {
    const { code, output } = await finish(run(['start', '--detatch']))
    expect(code).toBe(1)
    expect(output).toContain('--detatch is not known')
  })
})

describe('npm start and npm stop', () => {
  let first: HubDescription

  it('start everything in the background and print how to use it', async () => {
    const { code, output } = await finish(run(['start', '--detach']))
    expect(output).toContain('The hub is ready at')
    expect(code).toBe(0)
    first = description()
    expect(output).toContain(`curl -s ${first.base_url}/v1/messages`)
    expect(output).toContain(first.keys.test)
    expect(output).toContain(first.console_login_url)
    // A shell reads the folder of the printed command as one word.
    const printed = /^To diagnose problems: +(?<command>.+)$/mu.exec(output)?.groups?.['command'] ?? ''
    const read = spawnSync('sh', ['-c', printed.replace('npx hubctl doctor', 'printenv HUB_DATA_DIR')])
    expect(resolve(ROOT, read.stdout.toString().trim())).toBe(dataDir)
    // The output fits on one screen.
    expect(output.split('\n').length).toBeLessThanOrEqual(30)
    expect(Object.keys(first.pids).sort()).toEqual([
      'command-api',
      'dispatcher',
      'kafka',
      'operations-api',
      'operator-simulator',
      'postgres',
      'projector',
      'redis',
      'supervisor',
      'webhook-fanout',
    ])
    expect(await running(Object.values(first.pids))).toHaveLength(10)
    // Only the owner can read the keys.
    for (const name of ['hub.json', 'secrets.json']) {
      expect(statSync(join(dataDir, name)).mode & 0o077, name).toBe(0)
    }
  })

  it('listen only on the loopback interface', async () => {
    const addresses = Object.values(networkInterfaces())
      .flatMap((all) => all ?? [])
      .filter(({ family, internal }) => !internal && family === 'IPv4')
      .map(({ address }) => address)
    const ports = Object.values(portsAt(base))
    const reached = await Promise.all(
      [...addresses, '::1'].flatMap((host) =>
        ports.map(async (port) => ((await accepts(port, host)) ? [`${host}:${port}`] : [])),
      ),
    )
    expect(reached.flat()).toEqual([])
    expect(await accepts(portsAt(base).commandApi)).toBe(true)
  })

  it('write logs that only their owner can read', () => {
    const logs = readdirSync(join(dataDir, 'logs'))
    expect(logs).toContain('hub.log')
    expect(logs).toContain('dispatcher.log')
    for (const log of logs) expect(statSync(join(dataDir, 'logs', log)).mode & 0o777, log).toBe(0o600)
  })

  it('serve the account of each key', async () => {
    const keys = [first.keys, first.other_keys].flatMap(({ live, test }) => [
      ['test', test] as const,
      ['live', live] as const,
    ])
    for (const [mode, key] of keys) {
      const response = await fetch(`${first.base_url}/v1/account`, {
        headers: { authorization: `Bearer ${key}` },
      })
      expect(response.status, mode).toBe(200)
      expect(await response.json()).toMatchObject({ object: 'account', mode })
    }
  })

  it('serve the console, with login links that work once and have the wanted role', async () => {
    const { console_login_url: link = '', operations_url: url = '' } = first
    const printed = (await finish(run(['login', '--role', 'support']))).output.trim()
    for (const [address, role] of [
      [link, 'admin'],
      [printed, 'support'],
    ] as const) {
      const response = await fetch(address, { redirect: 'manual' })
      expect(response.status).toBe(303)
      const cookie = response.headers.getSetCookie()[0]?.split(';', 1)[0] ?? ''
      const me = await fetch(`${url}/v1/me`, { headers: { cookie } })
      expect(await me.json()).toMatchObject({ object: 'me', roles: [role] })
      expect((await fetch(address, { redirect: 'manual' })).status).toBe(403)
    }
    const unknown = await finish(run(['login', '--role', 'root']))
    expect(unknown.code).toBe(1)
    expect(unknown.output).toContain('The roles are member, viewer, support')
  })

  it('refuse a second hub on the same data without affecting the first', async () => {
    const { code, output } = await finish(run(['start', '--detach']))
    expect(code).toBe(1)
    expect(output).toContain(`A hub is running on ${dataDir} already (process ${first.pids['supervisor']})`)
    expect(output).toContain('npm stop')
    expect(await running(Object.values(first.pids))).toHaveLength(10)
    expect(description()).toEqual(first)
  })

  it('restart an app that ended', async () => {
    const before = pidOf(first, 'projector')
    process.kill(before, 'SIGKILL')
    const after = await eventually(
      () => {
        const pid = description().pids['projector']
        return pid !== before && pid
      },
      { withinMs: 180_000 },
    )
    expect(await isRunning(after)).toBe(true)
    expect(await isRunning(before)).toBe(false)
    expect(readFileSync(join(dataDir, 'logs/hub.log'), 'utf8')).toContain(
      'projector ended by itself (SIGKILL)',
    )
  })

  it('recover from a killed supervisor: old processes end, keys and data stay', async () => {
    const orphans = Object.entries(description().pids)
      .filter(([name]) => name !== 'supervisor')
      .map(([, pid]) => pid)
    const supervisor = pidOf(first, 'supervisor')
    process.kill(supervisor, 'SIGKILL')
    await eventually(async () => !(await isRunning(supervisor)))
    expect(await running(orphans)).toHaveLength(orphans.length)

    const began = performance.now()
    const { code, output } = await finish(run(['start', '--detach']))
    const seconds = ((performance.now() - began) / 1000).toFixed(1)
    // Only printed: a busy machine may be slow.
    console.log(`Start after a killed supervisor: ${seconds} s\n${output.split('\n\n')[0]}`)
    expect(output).toContain('ended what an interrupted start left running')
    expect(code).toBe(0)
    expect(await running(orphans)).toEqual([])
    const second = description()
    expect(second.keys).toEqual(first.keys)
    expect(second.other_keys).toEqual(first.other_keys)
  })

  it('stop everything', async () => {
    const pids = Object.values(description().pids)
    const { code, output } = await finish(run(['stop']))
    expect(code).toBe(0)
    expect(output).toContain('has ended')
    await expectNothingLeft(pids)
    expect((await finish(run(['stop']))).output).toContain('No hub runs on')
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('stop everything on %s in the foreground', async (signal) => {
    const began = performance.now()
    const started = run(['start'])
    await eventually(
      () => {
        if (started.child.exitCode !== null) throw new Error(started.output())
        return started.output().includes('Ctrl-C ends it')
      },
      { withinMs: 180_000 },
    )
    const seconds = ((performance.now() - began) / 1000).toFixed(1)
    console.log(`Start with existing data: ${seconds} s\n${started.output().split('\n\n')[0]}`)
    const pids = Object.values(description().pids)
    started.child.kill(signal)
    expect(await started.ended).toBe(0)
    await expectNothingLeft(pids)
  })

  it('stop everything on SIGTERM during the start', async () => {
    const started = run(['start'])
    await eventually(() => started.output().includes('answers after'))
    started.child.kill('SIGTERM')
    await started.ended
    expect(started.output()).not.toContain('The hub is ready')
    await expectNothingLeft([])
  })
})
