/** Runs `hubctl doctor` on a whole hub: it reports a healthy hub, or exactly the problems. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { alterTopics, topicCatalogue } from '@hub/kafka'
import { programFile } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { Effect } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeArmedPoints } from '../chaos/crash-matrix/armed-points.ts'
import { send } from '../support/client.ts'
import { freshNumber, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { readBase, workloadsOf } from './manifests/parse.ts'

/** A busy machine reaches the point, and starts a dispatcher, within this time. */
const KILLED_WITHIN_MS = 60_000

interface Finding {
  readonly subject: string
  readonly verdict: string
  readonly said: string
}

let hub: TestHub
let admin: HubAdmin
let crashPoints: string

beforeAll(async () => {
  crashPoints = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'crash-points-'))
  hub = await startHub({ environment: { HUB_CRASH_POINTS: crashPoints } })
  admin = makeHubAdmin(hub)
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
  rmSync(crashPoints, { recursive: true, force: true })
})

/**
 * Runs the command without variables that name a hub. It finds the local hub by its data folder.
 */
const doctor = (...flags: ReadonlyArray<string>) => run({ HUB_DATA_DIR: hub.dataDir }, ...flags)

const run = async (
  variables: NodeJS.Dict<string>,
  ...flags: ReadonlyArray<string>
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> => {
  const hubctl = await programFile('hubctl')
  return new Promise((resolve, reject) => {
    const { NODE_COMPILE_CACHE, PATH } = process.env
    const env = { NODE_COMPILE_CACHE, PATH, ...variables }
    execFile(process.execPath, [hubctl, 'doctor', ...flags], { env }, (error, out, err) => {
      const code = error === null ? 0 : error.code
      if (typeof code === 'number') resolve({ code, out, err })
      else reject(error ?? new Error('hubctl did not run'))
    })
  })
}

const findAll = async () =>
  JSON.parse((await doctor('--json')).out) as { readonly findings: ReadonlyArray<Finding> }

const findProblems = async (): Promise<ReadonlyArray<Finding>> =>
  (await findAll()).findings.filter(({ verdict }) => verdict === 'ill')

describe('hubctl doctor', () => {
  it('reports a healthy hub on one screen', async () => {
    const { code, err, out } = await doctor()
    assert.deepStrictEqual([code, err], [0, `hubctl: the local hub in ${hub.dataDir}\n`], out)
    const lines = out.trimEnd().split('\n')
    assert.strictEqual(lines.at(-1), 'All is well.')
    // The smallest usual terminal has 24 lines and 80 columns.
    assert.isBelow(lines.length, 24)
    for (const subject of ['PostgreSQL', 'Redis', 'Kafka', 'topics', 'processes', 'operator', 'schemas']) {
      assert.match(out, new RegExp(`^✓ ${subject} `, 'mu'))
    }
    assert.match(out, /^✓ dispatcher group +1 member, 0 records behind$/mu)
  })

  it('counts a message whose dispatcher was killed between its claim and its submit', async () => {
    const { live } = await admin.createAccount()
    const point = await makeArmedPoints(crashPoints).arm('dispatcher.claim-acknowledged', 'kill')
    const to = freshNumber()
    const sent = await live.post('/v1/messages', send('otp', to))
    assert.strictEqual(sent.status, 202, sent.text)
    assert.isNotNull(await point.reached(KILLED_WITHIN_MS))
    await hub.app('dispatcher').exited()
    await hub.app('dispatcher').restart()
    await eventually(async () => (await live.get(`/v1/messages/${sent.body.id}`)).body.status === 'sent', {
      withinMs: KILLED_WITHIN_MS,
    })
    const { findings } = await findAll()
    const finding = findings.find(({ subject }) => subject === 'unanswered submits')
    assert.strictEqual(finding?.verdict, 'note')
    assert.match(finding?.said ?? '', /^1 in the last 24 hours: 1 wait for a report/u)
    // The operator has counted every message that it received.
    const statistics = await fetch(`${hub.describe().operator_url}/statistics`)
    assert.deepInclude(await statistics.json(), { submissions: 0 })
  })

  it('passes with the settings that the deployment hubctl of the manifests has', async () => {
    const pod = workloadsOf(readBase()).find(({ where }) => where.endsWith('Deployment hubctl, hubctl'))
    assert.isDefined(pod)
    const names = new Set([...pod.own.keys(), ...pod.shared.keys()])
    const local = parseEnv(readFileSync(join(hub.dataDir, 'hubctl.env'), 'utf8'))
    const { code, out } = await run({
      ...Object.fromEntries(Object.entries(local).filter(([name]) => names.has(name))),
      HUB_SCHEMA_REGISTRY_URL: `${local['HUB_BASE_URL']}/schema-registry`,
      // The servers of a local hub have no TLS.
      HUB_DEPLOYMENT: 'development',
    })
    assert.strictEqual(code, 0, out)
    for (const subject of ['settings', 'PostgreSQL', 'Redis', 'Kafka', 'processes', 'operator', 'schemas']) {
      assert.match(out, new RegExp(`^✓ ${subject} `, 'mu'))
    }
  })

  it('reports exactly the problems', async () => {
    const [spec] = topicCatalogue({ prefix: '', partitions: 6, replicationFactor: 1 })
    assert.isDefined(spec)
    const altered = { ...spec, config: { ...spec.config, 'retention.ms': '3600000' } }
    await Effect.runPromise(
      alterTopics({ brokers: hub.describe().kafka.brokers, clientId: 'doctor-test' }, [altered]),
    )
    hub.server('redis').kill('SIGSTOP')
    try {
      // Each run waits for Redis.
      const [findings, { code, err, out }] = await Promise.all([findProblems(), doctor()])
      assert.deepStrictEqual(
        findings.map(({ subject }) => subject),
        ['Redis', 'topics'],
        JSON.stringify(findings),
      )
      assert.include(findings[1]?.said, `${spec.topic} has retention.ms 3600000 instead of`)
      assert.strictEqual(code, 1)
      assert.match(out, /2 things are wrong: Redis, topics\.\n$/u)
      assert.include(err, '(not_well)')
    } finally {
      hub.server('redis').kill('SIGCONT')
    }
  })
})
