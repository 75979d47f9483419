/**
 * The hub without containers: makes the archive, installs it with the commands of docs/deploying-systemd.md in an
 * empty folder, and starts each program with the commands of its unit.
 */
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ALL_APPS, type AnyApp } from '@hub/config'
import {
  eventually,
  freePort,
  openDatabase,
  testBrokers,
  testDatabaseUrl,
  testRedisUrl,
  topicPrefix,
} from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeTarball } from '../../infra/systemd/tarball.ts'
import { orSkip, runTool } from '../support/external-tools.ts'
import { startProgram } from '../support/program.ts'
import { readCode, textOf } from './manifests/parse.ts'
import { directivesIn, environmentOf, readUnits, unsetIn } from './manifests/units.ts'

/** The archive takes 15 s of processor time. */
const MADE_WITHIN_MS = 600_000
const TOOL_WITHIN_MS = 60_000
/** The user `nobody` of Debian, if the tests run as root. */
const NOBODY = 65534
const IDENTITY = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}

const root = mkdtempSync(join(tmpdir(), 'hub-systemd-'))
const database = `hub_test_${randomBytes(6).toString('hex')}`
let archive = ''

const asAdmin = async (statement: string): Promise<void> => {
  const sql = openDatabase(testDatabaseUrl())
  try {
    await sql.unsafe(statement)
  } finally {
    await sql.end()
  }
}

/** The commands of a section of the page, without those that ask systemd. */
const commandsIn = (page: string, heading: string): ReadonlyArray<string> => {
  const section = page.split(/^## /mu).find((text) => text.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^ *```sh\n(?<block>.*?)^ *```$/gmsu)]
    .flatMap(({ groups }) => (groups?.['block'] ?? '').split('\n'))
    .map((line) => line.trim())
    .filter((line) => line !== '' && !/\b(?:systemctl|curl|hubctl)\b/u.test(line))
}

beforeAll(async () => {
  chmodSync(root, 0o755)
  archive = await makeTarball(root)
  mkdirSync(join(root, 'etc/systemd/system'), { recursive: true })
  const commands = commandsIn(textOf('docs/deploying-systemd.md'), 'Install')
  expect(commands.length).toBeGreaterThan(5)
  for (const command of commands) {
    const here = command
      .replace(/^sudo /u, '')
      .replaceAll(/(?<= )\/(?=opt|etc)/gu, `${root}/`)
      .replaceAll('linux-x64', `linux-${process.arch}`)
    const { code, text } = await runTool('sh', ['-c', here], { cwd: root, withinMs: TOOL_WITHIN_MS })
    expect({ command, code }, text).toEqual({ command, code: 0 })
  }
  await asAdmin(`CREATE DATABASE ${database}`)
}, MADE_WITHIN_MS)

afterAll(async () => {
  rmSync(root, { recursive: true, force: true })
  await asAdmin(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
})

/** A unit as it was installed. */
const installed = (name: string) =>
  directivesIn(readFileSync(join(root, `etc/systemd/system/sms-delivery-hub-${name}.service`), 'utf8'))

/** Runs a command of a unit as systemd would, but below the root folder, with only the given variables. */
const start = (line: string, env: Readonly<Record<string, string>>) => {
  const [command = '', ...args] = line.split(' ')
  const program = startProgram(join(root, command), args, {
    cwd: join(root, 'opt/sms-delivery-hub/current'),
    env,
    ...IDENTITY,
  })
  return { ...program, text: () => program.lines.join('\n') }
}

const settings: Readonly<Record<string, string>> = {
  HUB_DATABASE_URL: Object.assign(new URL(testDatabaseUrl()), { pathname: `/${database}` }).toString(),
  HUB_REDIS_URL: testRedisUrl(),
  HUB_REDIS_PREFIX: `${database}:`,
  HUB_KAFKA_BROKERS: testBrokers().join(','),
  HUB_TOPIC_PREFIX: topicPrefix(),
  HUB_PARTITIONS: '1',
  HUB_MASTER_KEY: randomBytes(32).toString('base64'),
  HUB_NUMBER_HASH_SECRET: randomBytes(32).toString('hex'),
  HUB_BASE_URL: 'http://127.0.0.1:7300',
  HUB_OPERATIONS_URL: 'http://127.0.0.1:7305',
  HUB_LISTEN_HOST: '127.0.0.1',
}

/** The environment of a unit, with its own free ports and folders, and without what the unit removes. */
const environment = async (name: string): Promise<Readonly<Record<string, string>>> => {
  const unit = installed(name)
  const data = join(root, 'var', name)
  mkdirSync(data, { recursive: true })
  if ('uid' in IDENTITY) chownSync(data, NOBODY, NOBODY)
  const own = await Promise.all(
    environmentOf(unit).map(async ([variable, value]) => {
      if (variable.endsWith('_PORT')) return [variable, String(await freePort())]
      return [variable, /^%[SC]\//u.test(value) ? data : value]
    }),
  )
  const unset = new Set(unsetIn(unit))
  return Object.fromEntries(
    [...Object.entries(settings), ...own].filter(([variable]) => !unset.has(variable ?? '')),
  )
}

const onlyCommand = (name: string, directive: string): string => {
  const [line, ...others] = installed(name).get(directive) ?? []
  expect(others).toEqual([])
  return line ?? ''
}

describe('the archive', () => {
  it('has the checksum of its file, and each component of its bill of materials', async () => {
    const checked = await runTool('sha256sum', ['--check', `${archive}.sha256`], {
      cwd: root,
      withinMs: TOOL_WITHIN_MS,
    })
    expect(checked.code, checked.text).toBe(0)
    const current = join(root, 'opt/sms-delivery-hub/current')
    const bill = JSON.parse(readFileSync(join(current, 'sbom.cdx.json'), 'utf8')) as {
      readonly components: ReadonlyArray<{
        readonly name: string
        readonly hashes?: ReadonlyArray<{ readonly content: string }>
      }>
    }
    const node = await runTool('sha256sum', [join(current, 'bin/node')], { withinMs: TOOL_WITHIN_MS })
    expect(bill.components.find(({ name }) => name === 'node')?.hashes?.[0]?.content).toBe(
      node.text.split(' ')[0],
    )
    const names = new Set(bill.components.map(({ name }) => name))
    const found = readdirSync(join(current, 'node_modules'))
    expect(found.filter((name) => !name.startsWith('@') && !names.has(name))).toEqual([])
    expect(existsSync(join(current, 'apps/console/dist/index.html'))).toBe(true)
    expect(existsSync(join(current, 'THIRD-PARTY.md'))).toBe(true)
    expect(existsSync(join(current, 'bin/LICENSE'))).toBe(true)
  })

  it('contains hubctl', async () => {
    const { ended, text } = start('/opt/sms-delivery-hub/current/bin/node programs/hubctl.mjs --version', {})
    expect(await ended, text()).toBe(0)
    expect(text().trim()).toBe(`hubctl v${readCode().version}`)
  })
})

describe('the units', () => {
  it('prepare the database and the topics, and start each app, which ends on SIGTERM', async () => {
    for (const line of installed('prepare').get('ExecStart') ?? []) {
      const { ended, text } = start(line, await environment('prepare'))
      expect(await ended, text()).toBe(0)
    }
    const startApp = async (app: AnyApp) => {
      const env = await environment(app)
      const before = start(onlyCommand(app, 'ExecStartPre'), env)
      expect(await before.ended, before.text()).toBe(0)
      const running = start(onlyCommand(app, 'ExecStart'), env)
      await eventually(async () => {
        expect(running.isRunning(), running.text()).toBe(true)
        return (await fetch(`http://127.0.0.1:${env['HUB_ADMIN_PORT']}/healthz`)).ok
      })
      running.terminate()
      expect(await running.ended, running.text()).toBe(0)
    }
    await Promise.all(ALL_APPS.map(startApp))
  })

  it('start no app without settings: one line for each missing setting', async () => {
    const { ended, text } = start(onlyCommand('dispatcher', 'ExecStart'), { HUB_ADMIN_PORT: '7391' })
    expect(await ended).toBe(1)
    const lines = text().split('\n')
    // docs/configuration.md: the required settings of the dispatcher.
    for (const name of [
      'HUB_DATABASE_URL',
      'HUB_REDIS_URL',
      'HUB_KAFKA_BROKERS',
      'HUB_MASTER_KEY',
      'HUB_NUMBER_HASH_SECRET',
    ]) {
      expect(lines.filter((line) => line.includes(`${name} is not set`))).toHaveLength(1)
    }
    expect(text()).not.toMatch(/^\s+at /mu)
  })

  it('are correct and restricted for systemd', async (context) => {
    const there = await runTool('systemd-analyze', ['--version'], { withinMs: TOOL_WITHIN_MS })
    await orSkip(context, there.code === 0 ? {} : { missing: 'systemd-analyze is not on the PATH' })
    // The units of systemd itself, to which those of the hub refer.
    const ofSystem = join(root, 'usr/lib/systemd/system')
    mkdirSync(ofSystem, { recursive: true })
    for (const file of readdirSync('/lib/systemd/system')) {
      if (/\.(?:target|slice)$/u.test(file)) cpSync(join('/lib/systemd/system', file), join(ofSystem, file))
    }
    const units = [...readUnits().services.map(({ name }) => `${name}.service`), 'sms-delivery-hub.target']
    const verified = await runTool(
      'systemd-analyze',
      ['verify', '--man=no', '--recursive-errors=no', `--root=${root}`, ...units],
      { withinMs: TOOL_WITHIN_MS },
    )
    expect(verified).toEqual({ code: 0, text: '' })
    // systemd calls an exposure of at most 2 of 10 "OK". The threshold is ten times the exposure.
    for (const unit of units.filter((name) => name.endsWith('.service'))) {
      const { code, text } = await runTool(
        'systemd-analyze',
        ['security', '--offline=yes', '--threshold=20', '--no-pager', `--root=${root}`, unit],
        { withinMs: TOOL_WITHIN_MS },
      )
      expect(code, text).toBe(0)
      expect(text).toContain(`Overall exposure level for ${unit}`)
    }
  })
})
