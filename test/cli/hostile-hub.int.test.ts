/** What a terminal gets of a server that answers with control characters. The servers are no hubs: they obey the test. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { eventually, makeCertificateAuthority } from '@hub/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { orSkip } from '../support/external-tools.ts'
import { newConfigFolder } from '../support/hub-command.ts'
import { startProgram } from '../support/program.ts'
import { findTerminal } from '../support/terminal.ts'

const HUB = [process.execPath, join(ROOT, 'apps/cli/src/main.ts')]
const HUBCTL = [process.execPath, join(ROOT, 'apps/hubctl/src/main.ts')]

/**
 * Sets a colour and the title of the window, clears the screen (ECMA-48 with ESC and with C1), rings, deletes,
 * turns the order of the text (UAX #9), and begins a line.
 */
const HOSTILE =
  '\u001b[31mred\u001b]0;title\u0007\u009b2J\u0008\u007f\u202eevil\u2066\u200f\u061c\u2028\r next\u0000\u0085.'
/** An argument of a program cannot contain NUL. */
const NAME = HOSTILE.replaceAll('\0', '')
/**
 * Ranges of code points that must not reach a terminal: C0 without TAB, LF and CR, DEL and C1 (ECMA-48), the
 * marks of UAX #9, and the separators of UAX #14.
 */
const UNSAFE = [
  [0x00, 0x08],
  [0x0b, 0x0c],
  [0x0e, 0x1f],
  [0x7f, 0x9f],
  [0x061c, 0x061c],
  [0x200e, 0x200f],
  [0x2028, 0x202e],
  [0x2066, 0x2069],
] as const

/** The unsafe code points of a text. A terminal itself adds CR before LF. */
const unsafeIn = (text: string): ReadonlyArray<number> =>
  Array.from(text.replaceAll('\r\n', '\n'), (character) => character.codePointAt(0) ?? 0).filter(
    (code) => code === 0x0d || UNSAFE.some(([first, last]) => code >= first && code <= last),
  )

const servers: Array<Server> = []
const children: Array<ChildProcess> = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }
})

const folder = (): string => mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'hostile-hub-'))

/** Starts a server, and returns the environment in which `hub` and `hubctl` use it. */
const serve = async (answer: (path: string) => readonly [number, unknown]) => {
  const server = createServer((request, response) => {
    request.resume()
    const [status, body] = answer(new URL(request.url ?? '/', 'http://hub.example').pathname)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    HUB_URL: url,
    HUB_KEY: 'hub_test_x',
    XDG_CONFIG_HOME: newConfigFolder(),
    HUBCTL_API_URL: url,
    HUBCTL_API_TOKEN: 'token',
  }
}

const template = {
  id: HOSTILE,
  name: NAME,
  class: HOSTILE,
  sender: HOSTILE,
  status: HOSTILE,
  reason: HOSTILE,
  body: HOSTILE,
  placeholders: [HOSTILE],
}
const friendly = (path: string): readonly [number, unknown] =>
  path === '/v1/account'
    ? [200, { id: 'acc_1', name: HOSTILE, limits: { batch_max: 10 } }]
    : [200, { object: 'list', data: [template], has_more: false, next_cursor: null }]
const refusing = (): readonly [number, unknown] => [
  422,
  { error: { code: HOSTILE, message: HOSTILE, param: HOSTILE, request_id: HOSTILE } },
]

const file = (): string => {
  const path = join(folder(), `people\u001b[31m\u202e.csv`)
  writeFileSync(path, `to\u001b[2J,\u202eorder\n+79000000001,1\n`)
  return path
}

describe('a terminal gets no control characters', () => {
  it.for([
    ['of a list', [...HUB, 'templates', 'list'], friendly],
    ['of a check', [...HUB, 'doctor', '--no-deliveries'], friendly],
    ['of a refusal', [...HUB, 'messages', 'get', 'msg_1'], refusing],
    [
      'of the names of a file and its columns',
      [...HUB, 'send', '--template', NAME, '--csv', file()],
      friendly,
    ],
    ['of a refusal of the operations API', [...HUBCTL, 'accounts', 'list'], refusing],
  ] as const)('%s', async ([, command, answer], context) => {
    const terminal = await orSkip(context, findTerminal())
    const environment = { ...(await serve(answer)), TERM: 'xterm', NO_COLOR: '1', FORCE_COLOR: '' }
    // Both streams are the terminal.
    const program = terminal.start(['sh', '-c', 'exec "$@" 2>&1', 'sh', ...command], environment)
    children.push(program.child)
    await program.ended
    expect(program.shown()).toMatch(/u001b\[/u)
    expect(unsafeIn(program.shown())).toEqual([])
  })

  it('within JSON, which keeps its values', async () => {
    const [command, ...words] = [...HUB, 'templates', 'list', '--json']
    const child = spawn(command!, words, {
      env: { ...process.env, ...(await serve(friendly)) },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    let out = ''
    child.stdout.on('data', (chunk) => (out += String(chunk)))
    expect((await once(child, 'close'))[0]).toBe(0)
    expect(unsafeIn(out)).toEqual([])
    expect((JSON.parse(out) as { data: unknown }).data).toEqual([template])
  })

  it.for([
    ['of the events that the example receiver gets', 201],
    ['of a refusal of its subscription', 422],
  ] as const)('%s', async ([, status]) => {
    const secret = 'whsec_of_the_tests'
    const hub = await serve((path) =>
      status === 201 && path === '/v1/webhook_endpoints' ? [201, { id: 'whe_1', secret }] : refusing(),
    )
    const dataDir = folder()
    mkdirSync(join(dataDir, 'receiver'))
    writeFileSync(
      join(dataDir, 'hub.json'),
      JSON.stringify({ base_url: hub.HUB_URL, keys: { test: 'hub_test_x' } }),
    )
    const { cert, key } = await (await makeCertificateAuthority()).issue(['localhost'])
    writeFileSync(join(dataDir, 'receiver', 'tls.json'), JSON.stringify({ cert, key }))
    const main = join(ROOT, 'examples/webhook-receiver/main.ts')
    const program = startProgram('env', [`HUB_DATA_DIR=${dataDir}`, process.execPath, main])
    try {
      const shown = () => program.lines.join('\n')
      if (status === 201) {
        await eventually(() => shown().includes('Subscribed with'))
        const url = /https:\S+(?=\. Send)/u.exec(shown())?.[0] ?? ''
        const object = { id: HOSTILE, status: HOSTILE }
        const body = JSON.stringify([{ id: 'evt_1', type: HOSTILE, created_at: HOSTILE, data: { object } }])
        // docs/webhooks.md: HMAC-SHA-256 of the time, a point and the body.
        const at = Math.floor(Date.now() / 1000)
        const signature = createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')
        const posted = requestHttps(url, {
          method: 'POST',
          rejectUnauthorized: false,
          headers: { 'hub-signature': `t=${at},v1=${signature}` },
        })
        posted.end(body)
        const [answer] = await once(posted, 'response')
        expect(answer.statusCode).toBe(204)
      }
      await eventually(() => shown().includes('evil'))
      expect(unsafeIn(shown())).toEqual([])
    } finally {
      await program.stop()
    }
  })
})
