/** `npm run receiver` works with `npm start`, without a variable and in any order. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePortBase, removeData, ROOT, stopProcessesOf } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { createHubClient } from '@sms-delivery-hub/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newConfigFolder, runHubCommand } from '../support/hub-command.ts'
import { type Program, startProgram } from '../support/program.ts'

let dataDir = ''
let environment: Readonly<Record<string, string>> = {}
const programs: Array<Program> = []
beforeAll(async () => {
  dataDir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'local-receiver-'))
  chmodSync(dataDir, 0o755)
  environment = { HUB_DATA_DIR: dataDir, HUB_PORT_BASE: String(await freePortBase()) }
})
afterAll(async () => {
  for (const program of programs) await program.stop()
  await stopProcessesOf(dataDir, 60_000)
  removeData(dataDir)
})

const startReceiver = (): Program => {
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
  const main = join(ROOT, 'examples/webhook-receiver/main.ts')
  const program = startProgram('env', [...variables, process.execPath, main])
  programs.push(program)
  return program
}

it('a receiver that starts before or after the hub gets webhooks of the local hub', async () => {
  const early = startReceiver()
  await eventually(() => early.lines.some((line) => line.includes('Waiting for the hub')))
  const main = join(ROOT, 'infra/local/src/main.ts')
  const hub = spawn(process.execPath, [main, 'start', '--detach'], {
    env: { ...process.env, ...environment },
    stdio: 'ignore',
  })
  const [code] = await once(hub, 'exit')
  expect(code).toBe(0)

  const config = newConfigFolder()
  const trigger = async (): Promise<string> => {
    const triggered = await runHubCommand({ dataDir }, config, ['trigger', 'message.delivered'])
    expect(triggered.code, triggered.err).toBe(0)
    return triggered.json.data.object.id
  }
  const isShown = (program: Program, id: string): boolean =>
    program.lines.some((line) => line.includes('message.delivered') && line.includes(id))
  const isSubscribed = (program: Program): boolean =>
    program.lines.some((line) => line.startsWith('Subscribed'))

  await eventually(() => isSubscribed(early))
  const first = await trigger()
  await eventually(() => isShown(early, first))
  await early.stop()

  // The second receiver takes over the subscription, and gets what happened while none ran.
  const missed = await trigger()
  const late = startReceiver()
  await eventually(() => isSubscribed(late))
  const last = await trigger()
  await eventually(() => isShown(late, last) && isShown(late, missed), { withinMs: 180_000 })

  // Other addresses that are not public stay refused, also in a local hub.
  const { base_url: baseUrl, keys } = JSON.parse(readFileSync(join(dataDir, 'hub.json'), 'utf8'))
  const client = createHubClient({ baseUrl, apiKey: keys.test })
  for (const url of [
    'https://10.0.0.1/',
    'https://169.254.169.254/',
    'https://[::1]/',
    'http://localhost:3000/',
  ]) {
    await expect(client.webhookEndpoints.create({ url }), url).rejects.toMatchObject({
      code: 'webhook_url_invalid',
    })
  }
})
