/** The command line `hub` as it is packed, against one hub. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packPackageOnce, runOrThrow } from '../support/client-package.ts'
import { nodeTool, orSkip } from '../support/external-tools.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { newConfigFolder, startHubCommand } from '../support/hub-command.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'
import { describeCommands } from './commands.ts'
import { describeSendCsv } from './send-csv.ts'

let hub: TestHub
let receiver: WebhookReceiver
/** The unpacked package. */
let folder = ''

beforeAll(async () => {
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'hub-cli-'))
  const packed = await packPackageOnce('apps/cli')
  await runOrThrow('tar', ['-xzf', packed, '-C', folder, '--strip-components=1'], folder)
  receiver = await startWebhookReceiver()
  // Over HTTP, the operator simulator counts the messages that it gets, and those that it gets twice.
  hub = await startHub({ liveOperator: 'http', environment: receiver.environment })
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
})

const programWith = (node: string): ReadonlyArray<string> => [node, join(folder, 'hub.mjs')]
const fixture = () => ({ hub, receiver, program: programWith(process.execPath) })

describeCommands(fixture)
describeSendCsv(fixture)

describe('the packed command line', () => {
  it('is one file without dependencies, and runs outside of the repository on the oldest Node', async (context) => {
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    expect(manifest.bin).toEqual({ hub: './hub.mjs' })
    expect(manifest).not.toHaveProperty('dependencies')
    expect(manifest).not.toHaveProperty('devDependencies')
    const licences = readFileSync(join(folder, 'LICENCES.txt'), 'utf8')
    for (const name of ['csv-parse', 'effect']) expect(licences).toContain(`${name} `)

    expect(manifest.engines).toEqual({ node: '>=20.3' })
    const { node } = await orSkip(context, nodeTool('20.3.0'))
    const file = join(folder, 'people.csv')
    writeFileSync(file, 'to,order\n+79000000001,A-1\n')
    const program = programWith(node)
    for (const words of [['stats'], ['send', '--csv', file, '--template', 'order_ready', '--yes']]) {
      const ran = startHubCommand(hub, newConfigFolder(), [...words, '--json'], program)
      expect(await ran.ended, ran.err()).toBe(0)
      expect(JSON.parse(ran.out())).toHaveProperty('object')
    }
  })
})
