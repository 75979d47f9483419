/**
 * The Python client as a user gets it: its wheel, installed without a package index. The examples of its README and of
 * the page for integrators run against a hub, and it verifies what the hub delivers.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually, freePort } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest'
import { runOrThrow } from '../support/client-package.ts'
import { type Found, orSkip, pythonTool, runTool } from '../support/external-tools.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { newConfigFolder, runHubCommand, startHubCommand } from '../support/hub-command.ts'
import { type Program, startProgram } from '../support/program.ts'
import {
  buildPythonClient,
  installPythonClient,
  PYTHON_CLIENT,
  pythonExamples,
  type PythonPackage,
} from '../support/python-client.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

const RUN_WITHIN_MS = 300_000

let hub: TestHub
let receiver: WebhookReceiver
let built: Found<PythonPackage & { readonly installed: string }>
let folder = ''
const programs: Array<Program> = []

beforeAll(async () => {
  receiver = await startWebhookReceiver(204)
  hub = await startHub({ environment: receiver.environment })
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'python-client-'))
  const found = await buildPythonClient()
  built = 'missing' in found ? found : { ...found, installed: await installPythonClient(found) }
})
afterAll(async () => {
  for (const program of programs) await program.stop()
  await hub?.stop()
  await receiver?.close()
})

/** Writes a program, and returns the command that runs it with the installed client, as words for `env`. */
const commandOf = async (
  context: TestContext,
  name: string,
  code: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<ReadonlyArray<string>> => {
  const { command, installed } = await orSkip(context, built)
  const file = join(folder, name)
  writeFileSync(file, code)
  const { base_url, keys } = hub.describe()
  const variables = { PYTHONPATH: installed, HUB_URL: base_url, HUB_KEY: keys.test, ...environment }
  return [...Object.entries(variables).map(([key, value]) => `${key}=${value}`), command, file]
}

const runProgram = async (context: TestContext, name: string, code: string): Promise<string> => {
  const { code: ended, text } = await runTool('env', await commandOf(context, name, code), {
    withinMs: RUN_WITHIN_MS,
  })
  expect(ended, text).toBe(0)
  return text
}

describe('the files of a release', () => {
  it('contain the modules, their types and the README, need nothing, and have the same bytes each time', async (context) => {
    const first = await orSkip(context, built)
    const list = `import sys, zipfile; print("\\n".join(sorted(zipfile.ZipFile(sys.argv[1]).namelist())))`
    const files = (await runOrThrow(first.command, ['-c', list, first.wheel], folder)).trim().split('\n')
    expect(files.filter((file) => !/^sms_delivery_hub(?:-[\d.]+\.dist-info)?\/[\w.]+$/u.test(file))).toEqual(
      [],
    )
    expect(files).toContain('sms_delivery_hub/py.typed')
    const show = `import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.read([n for n in z.namelist() if n.endswith("METADATA")][0]).decode())`
    const metadata = await runOrThrow(first.command, ['-c', show, first.wheel], folder)
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
    expect(metadata).toContain(`\nName: sms-delivery-hub\nVersion: ${version}\n`)
    expect(metadata).toContain('\nRequires-Python: >=3.9\n')
    expect(metadata).not.toContain('Requires-Dist')
    expect(metadata).toContain('## Receive webhooks')
    const second = await orSkip(context, buildPythonClient())
    const hash = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex')
    expect([hash(second.wheel), hash(second.archive)]).toEqual([hash(first.wheel), hash(first.archive)])
  })
})

describe('the examples', () => {
  const examples = pythonExamples(join(PYTHON_CLIENT, 'README.md'))
  const example = (name: string): string => {
    const code = examples.get(name)
    if (code === undefined) throw new Error(`The README has no ${name}`)
    return code
  }

  it('are the programs that the tests run', () => {
    expect([...examples.keys()]).toEqual(['call.py', 'many.py', 'follow.py', 'wsgi.py'])
    expect([...pythonExamples('docs/integrating.md').keys()]).toEqual(['first.py'])
  })

  it('send one message, and many messages once', async (context) => {
    expect(await runProgram(context, 'call.py', example('call.py'))).toMatch(/^msg_\w+ accepted\n$/u)
    expect(await runProgram(context, 'many.py', example('many.py'))).toBe('2500 accepted\n')
    const id = (await runProgram(context, 'call.py', example('call.py'))).split(' ')[0]
    const read = `${example('call.py').split('\ntry:')[0]}\nprint(len(list(hub.messages.list({"client_ref": "order-4711"}))))\n`
    expect(await runProgram(context, 'read.py', read)).toBe('1\n')
    expect(id).toMatch(/^msg_/u)
  })

  it('of the page for integrators sends a code', async (context) => {
    const { base_url, keys } = hub.describe()
    const code = (pythonExamples('docs/integrating.md').get('first.py') ?? '')
      .replace('http://127.0.0.1:7300', base_url)
      .replace('hub_test_…', keys.test)
    await runProgram(context, 'first.py', `${code}\nprint(hub.account.get()["mode"])\n`)
    const list = `import os\nfrom sms_delivery_hub import HubClient\nhub = HubClient(os.environ["HUB_URL"], os.environ["HUB_KEY"])\nprint([one["class"] for one in hub.messages.list({"client_ref": "signup-17-code"})])\n`
    expect(await runProgram(context, 'list.py', list)).toBe("['otp']\n")
  })

  it('follow the events of a message', async (context) => {
    await runProgram(context, 'call.py', example('call.py'))
    // It ends at the first event instead of after a time.
    const code = example('follow.py').replace('threading.Timer(5, stop.set).start()', '')
    const ended = await runProgram(context, 'follow.py', `${code}    stop.set()\n`)
    expect(ended).toMatch(/^message\.accepted evt_\w+\n$/u)
  })

  it('verify what hub listen passes on, and refuse what is not from the hub', async (context) => {
    const config = newConfigFolder()
    const port = await freePort()
    const forwardTo = `http://127.0.0.1:${port}/`
    const listening = startHubCommand(hub, config, ['listen', '--forward-to', forwardTo, '--json'])
    await eventually(() => listening.out().includes('\n'), { everyMs: 50 })
    const { secret } = JSON.parse(listening.out().split('\n')[0] ?? '')
    const environment = { PORT: String(port), HUB_WEBHOOK_SECRET: secret }
    const program = startProgram('env', [
      ...(await commandOf(context, 'wsgi.py', example('wsgi.py'), environment)),
    ])
    programs.push(program)
    const triggered = await runHubCommand(hub, config, ['trigger', 'message.delivered'])
    expect(triggered.code, triggered.err).toBe(0)
    await eventually(() => program.lines.includes(`message.delivered ${triggered.json.id}`), { everyMs: 50 })
    const refused = await fetch(forwardTo, {
      method: 'POST',
      headers: { 'hub-signature': `t=1,v1=${'0'.repeat(64)}` },
      body: '[]',
    })
    expect([refused.status, await refused.text()]).toEqual([400, 'no_match'])
    listening.child.kill('SIGINT')
    await listening.ended
    await program.stop()
  })
})

/** Subscribes, sends, and prints what the test needs to find the delivery. */
const SUBSCRIBE = `
import json, os, sys
from sms_delivery_hub import HubClient, HubNotFoundError

hub = HubClient(os.environ["HUB_URL"], os.environ["HUB_KEY"])
endpoint = hub.webhook_endpoints.create({"url": sys.argv[1]})
rotated = hub.webhook_endpoints.rotate_secret(endpoint["id"])
batch = hub.messages.send_batch(
    [
        {"to": "+79000000001", "class": "service", "template": "order_ready", "variables": {"order": "1"}, "client_ref": "p-1"},
        {"to": "+7900", "class": "service", "template": "order_ready", "variables": {"order": "2"}, "client_ref": "p-2"},
    ]
)
outcomes = [one["error"]["code"] if one["result"] == "rejected" else one["result"] for one in batch["results"]]
try:
    hub.batches.get("bat_nothing")
except HubNotFoundError as error:
    outcomes.append(error.code)
message = hub.messages.estimate({"to": "+79000000001", "class": "otp", "template": "otp_code", "variables": {"code": "1"}})
print(
    json.dumps(
        {
            "secrets": [endpoint["secret"], rotated["secret"]],
            "outcomes": outcomes,
            "parts": message["parts"],
            "test": hub.webhook_endpoints.test(endpoint["id"])["response_code"],
            "stats": hub.stats.get()["object"],
            "types": sorted({one["type"] for one in hub.events.list()})[:1],
        }
    )
)
`

/** Reads captured requests as the client and as the library of Standard Webhooks do. */
const VERIFY = `
import base64, json, sys
from sms_delivery_hub import read_events, read_standard_events
from standardwebhooks import Webhook

captured = json.load(open(sys.argv[1], encoding="utf-8"))
for request in captured["requests"]:
    body, headers = base64.b64decode(request["body"]), request["headers"]
    for secret in captured["secrets"]:
        events = read_events(body, headers["hub-signature"], secret)
        assert events == read_standard_events(body, headers, secret)
        assert events == Webhook(secret).verify(body, headers)
        print(*(event["type"] for event in events))
`

/** Calls a server whose certificate is trusted only with the file of its authority. */
const TLS = `
import ssl, sys
from sms_delivery_hub import HttpTransport, HubClient, HubConnectionError, Request

url, authority = sys.argv[1:]
transport = HttpTransport(ssl.create_default_context(cafile=authority))
for number in (1, 2):
    answer = transport(Request("POST", url, {"X-Number": str(number)}, b"x" * 1_000_000, 60))
    print(answer.status, answer.read(1))
    answer.close()
try:
    HubClient(url[: url.index("/", 8)], "hub_test_x", max_retries=0).account.get()
except HubConnectionError as error:
    print(error.code, type(error.__cause__).__name__)
`

describe('a connection with TLS', () => {
  it('carries several requests, and is refused without the authority of the certificate', async (context) => {
    const words = await commandOf(context, 'tls.py', TLS)
    const authority = receiver.environment['HUB_WEBHOOK_CA_FILE'] ?? ''
    const { code, text } = await runTool('env', [...words, receiver.url('/tls'), authority], {
      withinMs: RUN_WITHIN_MS,
    })
    expect({ code, text }).toEqual({
      code: 0,
      text: "204 b''\n204 b''\nconnection_failed SSLCertVerificationError\n",
    })
    const seen = receiver.received.filter(({ path }) => path === '/tls')
    expect(seen.map(({ body, headers }) => [headers['x-number'], body.length])).toEqual([
      ['1', 1_000_000],
      ['2', 1_000_000],
    ])
  })
})

describe('a delivery of a hub', () => {
  it('during a rotation is verified with each secret, as the library of Standard Webhooks does', async (context) => {
    const judge = await orSkip(context, pythonTool('standardwebhooks', '1.1.0'))
    const { installed } = await orSkip(context, built)
    const words = await commandOf(context, 'subscribe.py', SUBSCRIBE)
    const subscribed = await runTool('env', [...words, receiver.url('/python')], { withinMs: RUN_WITHIN_MS })
    expect(subscribed.code, subscribed.text).toBe(0)
    const { secrets, ...rest } = JSON.parse(subscribed.text)
    expect(rest).toEqual({
      outcomes: ['accepted', 'recipient_invalid', 'not_found'],
      parts: 1,
      test: 204,
      stats: 'stats',
      types: [expect.any(String)],
    })
    const deliveries = () =>
      receiver.received.filter(
        ({ body, path }) => path === '/python' && !String(body).includes('webhook.test'),
      )
    await eventually(() => deliveries().some(({ body }) => String(body).includes('message.delivered')))
    const requests = deliveries().map(({ body, headers }) => ({
      body: Buffer.from(body).toString('base64'),
      headers,
    }))
    const file = join(folder, 'captured.json')
    writeFileSync(file, JSON.stringify({ secrets, requests }))
    const python = join(judge.folder, 'bin/python')
    const verified = await runTool('env', [`PYTHONPATH=${installed}`, python, '-c', VERIFY, file], {
      withinMs: RUN_WITHIN_MS,
    })
    expect(verified.code, verified.text).toBe(0)
    expect(verified.text.trim().split('\n')).toHaveLength(secrets.length * requests.length)
    expect(verified.text).toContain('message.delivered')
  })
})
