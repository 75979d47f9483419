/**
 * The examples of the client package compile against the published package under strict rules, and
 * verify webhooks.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { eventually, freePort } from '@hub/testkit'
import { afterAll, describe, expect, it } from 'vitest'
import { type ClientPackage, installClient } from '../support/client-package.ts'
import { npmTool, orSkip } from '../support/external-tools.ts'
import { compileProject } from '../support/typescript-project.ts'

const PACKAGES = {
  '@types/express': '5.0.6',
  '@types/node': '24.19.2',
  express: '5.2.1',
  fastify: '5.8.2',
  typescript: '5.9.3',
} as const
/** A step takes seconds on a quiet machine, and a minute beside three other hubs on two cores. */
const STEP_WITHIN_MS = 170_000
const SECRET = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
const BODY = JSON.stringify([{ id: 'evt_1', object: 'event', type: 'message.sent', note: 'Заказ ✓' }])

/** This code must not compile: it checks that the types are precise. */
const MISUSE = `
import { createHubClient, readEvents } from '@sms-delivery-hub/client'
const hub = createHubClient({ baseUrl: 'https://hub.example.com', apiKey: 'hub_test_x' })
// @ts-expect-error there is no such path
void hub.get('/v1/nothing')
// @ts-expect-error there is no such field
void readEvents('', '', '').then((events) => events.map((event) => event.nothing))
// @ts-expect-error an answer is awaited
readEvents('', '', '').length
// @ts-expect-error there is no such class
void hub.messages.send({ to: '', class: 'voice', template: '' })
// @ts-expect-error each message of a batch has a client_ref
void hub.messages.sendBatch([{ to: '', class: 'otp', template: '' }])
void hub.get('/v1/account').then((account) => account.limits.batch_max)
`

const children: Array<ReturnType<typeof spawn>> = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

const headersFor = async (library: ClientPackage, good: boolean): Promise<Record<string, string>> => ({
  'content-type': 'application/json',
  'hub-signature': await library.exports.signForTest(BODY, good ? SECRET : 'whsec_other'),
})

/**
 * Starts a compiled program and sends it a webhook with a valid and one with an invalid signature.
 * Returns its responses and its output.
 */
const runExample = async (library: ClientPackage, program: string) => {
  const port = await freePort()
  const printed: Array<string> = []
  const child = spawn(process.execPath, [join(library.folder, 'out', program)], {
    env: { ...process.env, PORT: String(port), HUB_WEBHOOK_SECRET: SECRET },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => printed.push(String(chunk)))
  const post = async (good: boolean) =>
    fetch(`http://localhost:${port}/hooks/sms`, {
      method: 'POST',
      headers: await headersFor(library, good),
      body: BODY,
    })
  const good = await eventually(() => post(true), { everyMs: 100 })
  const bad = await post(false)
  const badBody = await bad.text()
  await eventually(() => printed.join('').includes('evt_1'))
  return { good: good.status, bad: bad.status, badBody, printed: printed.join('') }
}

describe('the examples of the client package', () => {
  it(
    'compile, accept a valid signature and refuse an invalid one',
    async (context) => {
      const tool = await orSkip(context, npmTool('client-examples-1', PACKAGES))
      const library = await installClient(tool.folder)
      expect([...library.examples.keys()]).toEqual([
        'call.ts',
        'many.ts',
        'follow.ts',
        'express.ts',
        'fastify.ts',
        'next.ts',
        'nest.ts',
      ])
      mkdirSync(join(library.folder, 'src'))
      for (const [name, code] of [...library.examples, ['misuse.ts', MISUSE] as const]) {
        // NestJS has other options of the compiler: client-package.e2e.test.ts.
        if (name === 'nest.ts') continue
        writeFileSync(join(library.folder, 'src', name), code)
      }
      const compiled = await compileProject(library.folder, {
        toolFolder: tool.folder,
        compilerOptions: {
          lib: ['es2023'],
          types: ['node'],
          typeRoots: [join(tool.folder, 'node_modules/@types')],
        },
        withinMs: STEP_WITHIN_MS,
      })
      expect(compiled.code, compiled.text).toBe(0)

      for (const program of ['express.js', 'fastify.js']) {
        expect(await runExample(library, program), program).toMatchObject({
          good: 204,
          bad: 400,
          badBody: 'no_match',
          printed: expect.stringContaining('message.sent evt_1'),
        })
      }
      process.env['HUB_WEBHOOK_SECRET'] = SECRET
      const { POST } = await import(pathToFileURL(join(library.folder, 'out/next.js')).href)
      const request = async (good: boolean): Promise<Response> =>
        POST(
          new Request('https://example.com/hooks/sms', {
            method: 'POST',
            headers: await headersFor(library, good),
            body: BODY,
          }),
        )
      expect((await request(true)).status).toBe(204)
      const refused = await request(false)
      expect([refused.status, await refused.text()]).toEqual([400, 'no_match'])
    },
    4 * STEP_WITHIN_MS,
  )
})
