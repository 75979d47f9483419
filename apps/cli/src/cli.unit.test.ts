/**
 * The command line: each command has complete help without a hub, and each failure is one sentence with a
 * code and an exit code.
 */
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandLineContract } from '@hub/command-line/testing'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { hubCommand } from './cli.ts'
import { hubPage } from './page.ts'
import { runHub } from './testing/run-hub.ts'

let folder = ''
/** An environment without a hub. */
let nowhere: Readonly<Record<string, string>> = {}
beforeAll(() => {
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'hub-cli-'))
  nowhere = { XDG_CONFIG_HOME: folder }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

commandLineContract({
  program: hubCommand,
  run: (args) => runHub(nowhere, args),
  group: 'messages',
  page: { file: new URL('../../../docs/hub.md', import.meta.url), text: hubPage },
})

describe('a wrong command line', () => {
  it.each([
    [['snd'], 'Unknown subcommand "snd" for "hub". Did you mean send? See: hub --help'],
    [['events', 'tale'], 'Did you mean tail? See: hub events --help'],
    [['send', '--tmplate', 'a'], 'Did you mean --template?'],
    [['send', '--template', 'a'], 'Give either --to or --csv.'],
    [['send', '--template', 'a', '--to', '+79000000001', '--csv', 'a.csv'], 'Give either --to or --csv.'],
    [['send', '--template', 'a', '--csv', 'a.csv', '--client-ref', 'b'], '--client-ref, --ttl and --wait'],
    [['listen', '--forward-to', 'localhost:3000'], '--forward-to must be a URL'],
    [['trigger', 'message.lost'], 'message.lost'],
    [['messages', 'list', '--limit', '0'], '--limit'],
    [['completion'], 'shell'],
  ])('gets one sentence and exit code 2: %j', async (words, sentence) => {
    const ran = await runHub(nowhere, words)
    assert.deepStrictEqual([ran.code, ran.out], [2, ''])
    assert.include(ran.err, sentence)
    assert.include(ran.err, '(usage)')
    assert.notInclude(ran.err.trim(), '\n')
  })

  it('does not take -v for the version, because it is a value of a template', async () => {
    assert.strictEqual((await runHub(nowhere, ['-v'])).code, 2)
    assert.include((await runHub(nowhere, ['--version'])).out, '0.4.0')
  })
})

describe('the selection of the hub', () => {
  it('needs a hub, and names the ways to select one', async () => {
    const ran = await runHub(nowhere, ['stats', '--json'])
    assert.deepStrictEqual([ran.code, ran.out], [1, ''])
    const { code, message } = JSON.parse(ran.err).error
    assert.strictEqual(code, 'no_hub')
    for (const word of ['hub login', 'HUB_URL', 'npm start']) assert.include(message, word)
  })

  it.each([
    [{ HUB_URL: 'https://hub.example.com' }, ['stats'], 'HUB_KEY is not'],
    [{ HUB_KEY: 'hub_test_x' }, ['stats'], 'HUB_URL is not'],
    [{ HUB_URL: 'https://h.example', HUB_KEY: 'hub_live_x' }, ['stats'], 'Add --live'],
    [{ HUB_URL: 'https://h.example', HUB_KEY: 'hub_test_x' }, ['stats', '--live'], 'is a test key'],
  ])('refuses half a selection, and a live key without --live: %j %j', async (variables, words, sentence) => {
    const ran = await runHub({ ...nowhere, ...variables }, words)
    assert.strictEqual(ran.code, 2)
    assert.include(ran.err, sentence)
  })

  it('refuses an address that is no URL', async () => {
    const ran = await runHub({ ...nowhere, HUB_URL: 'hub.example.com', HUB_KEY: 'hub_test_x' }, ['stats'])
    assert.strictEqual(ran.code, 1)
    assert.include(ran.err, 'baseUrl must be the URL of the hub')
    assert.include(ran.err, '(hub_address_invalid)')
    // The address is that of a variable, so a login would not help.
    assert.notInclude(ran.err, 'hub login')
  })
})

/** An HTTP server on this machine. */
const serve = async (
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly url: string; readonly close: () => void }> => {
  const server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => server.close(),
  }
}

describe('a failure of the hub', () => {
  it('that cannot be reached is one sentence with exit code 3', async () => {
    const { close, url } = await serve(200, {})
    close()
    const ran = await runHub({ ...nowhere, HUB_URL: url, HUB_KEY: 'hub_test_x' }, ['stats'])
    assert.strictEqual(ran.code, 3)
    assert.include(
      ran.err,
      'hub: The hub cannot be reached (ECONNREFUSED): check its address. (hub_unreachable)',
    )
  })

  it('that is another server is one sentence with exit code 1', async () => {
    const { close, url } = await serve(404, 'Not found')
    for (const [address, sentence] of [
      [url, 'The server at this address is not a hub (404): check the address. (no_hub_there)'],
      [url.replace('http:', 'https:'), 'There is no https at the address of the hub'],
    ] as const) {
      const ran = await runHub({ ...nowhere, HUB_URL: address, HUB_KEY: 'hub_test_x' }, ['stats'])
      assert.strictEqual(ran.code, 1)
      assert.include(ran.err, sentence)
    }
    close()
  })

  it('or of a file is one sentence that says why', async () => {
    const template = { name: 'order_ready', class: 'service', placeholders: ['order'] }
    const answer = { id: 'acc_1', limits: { batch_max: 1 }, data: [template], has_more: false }
    const { close, url } = await serve(200, answer)
    const environment = { ...nowhere, HUB_URL: url, HUB_KEY: 'hub_test_x' }
    const missing = join(folder, 'missing.csv')
    const ran = await runHub(environment, ['send', '--csv', missing, '--template', 'order_ready'])
    close()
    assert.strictEqual(ran.code, 1)
    assert.include(ran.err, `hub: ${missing}: there is no such file or folder. (file_failed)`)
  })

  it('that refuses the key is one sentence with exit code 1', async () => {
    const { close, url } = await serve(401, { error: { code: 'invalid_api_key', message: 'words' } })
    const ran = await runHub({ ...nowhere, HUB_URL: url, HUB_KEY: 'hub_test_x' }, ['stats'])
    close()
    assert.strictEqual(ran.code, 1)
    assert.include(ran.err, 'The hub refuses the API key: it is wrong, has expired')
    assert.include(ran.err, '(invalid_api_key)')
    assert.notInclude(ran.err, 'hub_test_x')
  })

  it.each([
    [-3600, 'is 3600 s ahead of that of the hub'],
    [3600, 'is 3600 s behind that of the hub'],
  ])('whose clock differs by %d s is one sentence with exit code 1', async (seconds, sentence) => {
    const date = new Date(Math.floor(Date.now() / 1000) * 1000 + seconds * 1000).toUTCString()
    const account = { id: 'acc_1', name: 'A' }
    const { close, url } = await serve(200, account, { date })
    const environment = { ...nowhere, HUB_URL: url, HUB_KEY: 'hub_test_x' }
    const listening = await runHub(environment, ['listen', '--forward-to', 'http://127.0.0.1:1/'])
    const login = await runHub(nowhere, ['login', '--url', url], { input: 'hub_test_x' })
    close()
    for (const ran of [listening, login]) {
      assert.strictEqual(ran.code, 1)
      assert.match(ran.err.replace(/3[56]\d\d s/u, '3600 s'), new RegExp(sentence, 'u'))
      assert.include(ran.err, '(clock_wrong)')
    }
  })
})

describe('the file of a local hub in a folder above', () => {
  /** Returns the current folder, two levels below that of the file, and the file. */
  const prepare = (baseUrl: string) => {
    const above = mkdtempSync(join(folder, 'above-'))
    const file = join(above, '.local/hub.json')
    mkdirSync(join(above, '.local'))
    mkdirSync(join(above, 'a/b'), { recursive: true })
    writeFileSync(file, JSON.stringify({ base_url: baseUrl, keys: { test: 'hub_test_x' } }), { mode: 0o600 })
    return { file, below: { folder: join(above, 'a/b') } }
  }

  it('is used if it is the own one', async () => {
    const { close, url } = await serve(200, { object: 'stats', data: [] })
    const { below, file } = prepare(url)
    const ran = await runHub(nowhere, ['stats', '--json'], below)
    close()
    assert.strictEqual(ran.code, 0, ran.err)
    assert.include(ran.err, `Hub: ${url} (${file}), test key`)
  })

  it('is not used if others can write it', async () => {
    const { below, file } = prepare('http://127.0.0.1:1')
    for (const mode of [0o620, 0o602]) {
      chmodSync(file, mode)
      const ran = await runHub(nowhere, ['stats'], below)
      assert.strictEqual(ran.code, 1)
      assert.include(ran.err, `Other users can write ${file}, so it is not used.`)
    }
  })

  it('is not used if another user owns it', async (context) => {
    if (process.getuid?.() !== 0) {
      console.log('Skipped: only root can give a file to another user')
      context.skip()
    }
    const { below, file } = prepare('http://127.0.0.1:1')
    chownSync(file, 12_345, 12_345)
    for (const words of [['stats'], ['login']]) {
      const ran = await runHub(nowhere, words, below)
      assert.strictEqual(ran.code, 1)
      assert.include(ran.err, `${file} belongs to another user, so it is not used.`)
    }
  })

  it.each(['http://203.0.113.7', 'https://hub.example', 'http://127.0.0.1.example', 'http://[2001:db8::1]'])(
    'is not used if it names another machine: %s',
    async (address) => {
      const ran = await runHub(nowhere, ['stats'], prepare(address).below)
      assert.strictEqual(ran.code, 1)
      assert.include(ran.err, 'names a hub on another machine, so it is not used.')
    },
  )

  it('is one sentence if it is damaged', async () => {
    const { below, file } = prepare('http://127.0.0.1:1')
    for (const content of ['{', 'null', '[]', '{"base_url":"http://127.0.0.1:1"}']) {
      writeFileSync(file, content)
      assert.include((await runHub(nowhere, ['stats'], below)).err, `${file} is damaged.`)
    }
  })
})

describe('an address of another machine without encryption', () => {
  it('is refused from every source, before a key is sent', async () => {
    const variables = { ...nowhere, HUB_URL: 'http://hub.invalid', HUB_KEY: 'hub_test_secret' }
    const home = mkdtempSync(join(folder, 'config-'))
    mkdirSync(join(home, 'sms-delivery-hub'))
    writeFileSync(
      join(home, 'sms-delivery-hub/login.json'),
      JSON.stringify({ base_url: 'http://hub.invalid', keys: { test: 'hub_test_secret' } }),
    )
    for (const environment of [variables, { XDG_CONFIG_HOME: home }]) {
      const ran = await runHub(environment, ['stats'])
      assert.strictEqual(ran.code, 1)
      assert.include(ran.err, 'must have an https address')
      assert.include(ran.err, '(hub_address_insecure)')
      assert.notInclude(ran.out + ran.err, 'hub_test_secret')
    }
  })
})

describe('hub listen', () => {
  it.each([
    [
      'http://192.0.2.1:3000/hooks',
      'go to another machine, 192.0.2.1:3000 without encryption, so others can',
    ],
    ['https://receiver.example/hooks', 'go to another machine, receiver.example.'],
    ['http://localhost:3000/hooks', null],
    ['http://[::1]:3000/hooks', null],
  ])('warns before it forwards to another machine: %s', async (target, warning) => {
    // The hub refuses, so that the command ends before it forwards.
    const { close, url } = await serve(401, { error: { code: 'invalid_api_key', message: 'words' } })
    const ran = await runHub({ ...nowhere, HUB_URL: url, HUB_KEY: 'hub_test_x' }, [
      'listen',
      '--forward-to',
      target,
    ])
    close()
    assert.strictEqual(ran.code, 1)
    if (warning === null) assert.notInclude(ran.err, 'Warning')
    else assert.include(ran.err, warning)
  })
})

describe('hub login', () => {
  it('stores one key of each mode for a hub, readable only by the owner, and never prints them', async () => {
    const { close, url } = await serve(200, { id: 'acc_1', name: 'Shop' })
    for (const key of ['hub_test_secret', 'hub_live_secret']) {
      const ran = await runHub(nowhere, ['login', '--url', url, '--json'], { input: `${key}\n` })
      assert.strictEqual(ran.code, 0, ran.err)
      assert.notInclude(ran.out + ran.err, key)
      const { file } = ran.json<{ readonly file: string }>()
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    }
    const file = join(folder, 'sms-delivery-hub/login.json')
    assert.deepStrictEqual(JSON.parse(readFileSync(file, 'utf8')), {
      base_url: url,
      keys: { test: 'hub_test_secret', live: 'hub_live_secret' },
    })
    const used = await runHub(nowhere, ['stats', '--live', '--json'])
    assert.include(used.err, `Hub: ${url} (hub login), live key`)
    writeFileSync(file, '{')
    assert.include((await runHub(nowhere, ['stats'])).err, '(login_damaged)')
    rmSync(file)
    close()
  })

  it('refuses what is no key, before it calls the hub', async () => {
    const ran = await runHub(nowhere, ['login', '--url', 'http://127.0.0.1:1'], { input: 'password' })
    assert.strictEqual(ran.code, 1)
    assert.include(ran.err, '(invalid_api_key)')
  })

  it('refuses to send a key without encryption to another machine', async () => {
    const ran = await runHub(nowhere, ['login', '--url', 'http://hub.invalid'], { input: 'hub_test_secret' })
    assert.strictEqual(ran.code, 2)
    assert.include(ran.err, 'must have an https address')
    assert.notInclude(ran.out + ran.err, 'hub_test_secret')
  })
})
