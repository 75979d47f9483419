/**
 * A client that a stock generator creates from the OpenAPI description compiles under strict rules
 * and sends a batch.
 */
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { client } from '../support/client.ts'
import { npmTool, orSkip, runTool } from '../support/external-tools.ts'

/** The generator needs TypeScript 5, so it has its own folder. */
const PACKAGES = {
  'openapi-typescript': '7.13.0',
  'openapi-fetch': '0.17.0',
  typescript: '5.9.3',
} as const
/** A step takes seconds on a quiet machine, and a minute beside three other hubs on two cores. */
const STEP_WITHIN_MS = 170_000

/** A program that a user of the API might write. It prints its results. */
const PROGRAM = `
import createClient from 'openapi-fetch'
import type { paths } from './hub.js'

declare const process: { readonly argv: ReadonlyArray<string> }

const [baseUrl, key] = process.argv.slice(2)
if (baseUrl === undefined || key === undefined) throw new Error('usage: program <base url> <key>')
// The media type selects the type of an answer that exists in several: that of the stats.
const hub = createClient<paths, 'application/json'>({ baseUrl, headers: { Authorization: \`Bearer \${key}\` } })

const { data, error, response } = await hub.POST('/v1/messages/batch', {
  params: { header: { 'Idempotency-Key': 'generated-1' } },
  body: {
    messages: [
      { to: '+79000000001', class: 'service', template: 'order_ready', variables: { order: '1' }, client_ref: 'g-1' },
      { to: '+79000000002', class: 'otp', template: 'otp_code', variables: { code: 4821 }, client_ref: 'g-2' },
      { to: '+7900', class: 'service', template: 'order_ready', variables: { order: '3' }, client_ref: 'g-3' },
    ],
  },
})
if (data === undefined) throw new Error(\`\${response.status} \${error.error.code}\`)

const outcomes: Array<string> = []
for (const result of data.results) {
  switch (result.result) {
    case 'accepted':
      outcomes.push(result.message.id)
      break
    case 'duplicate':
      outcomes.push(result.message_url)
      break
    case 'rejected':
      outcomes.push(result.error.code)
      break
  }
}
const first = data.results[0]
if (first?.result !== 'accepted') throw new Error('the first element was not accepted')
const read = await hub.GET('/v1/messages/{id}', { params: { path: { id: first.message.id } } })
const estimate = await hub.POST('/v1/messages/estimate', {
  body: { to: '+79000000001', class: 'otp', template: 'otp_code', variables: { code: '1' } },
})
const events = await hub.GET('/v1/events', { params: { query: { limit: 10, type: ['message.accepted'] } } })
const stats = await hub.GET('/v1/stats', { params: { query: { group_by: 'class' } } })
const refused = await hub.GET('/v1/batches/{id}', { params: { path: { id: 'bat_nothing' } } })
console.log(
  JSON.stringify({
    status: response.status,
    id: data.id,
    counts: data.counts,
    outcomes,
    read: read.data?.status,
    text: read.data?.text,
    estimated: estimate.response.status,
    events: events.data?.object,
    stats: stats.data?.object,
    refused: refused.error?.error.code,
  }),
)
`

let hub: TestHub

beforeAll(async () => {
  hub = await startHub()
})
afterAll(() => hub?.stop())

describe('a client generated from the OpenAPI description', () => {
  it(
    'compiles and sends a batch',
    async (context) => {
      const tool = await orSkip(context, npmTool('generated-client-1', PACKAGES))
      const { base_url, keys } = hub.describe()
      const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'client-'))
      mkdirSync(join(dir, 'src'))
      symlinkSync(join(tool.folder, 'node_modules'), join(dir, 'node_modules'))
      writeFileSync(join(dir, 'package.json'), JSON.stringify({ type: 'module', private: true }))
      const description = await client(base_url, null).get('/v1/openapi.json')
      writeFileSync(join(dir, 'openapi.json'), description.text)
      writeFileSync(join(dir, 'src/program.ts'), PROGRAM)
      writeFileSync(
        join(dir, 'tsconfig.json'),
        JSON.stringify({
          compilerOptions: {
            target: 'es2023',
            module: 'nodenext',
            strict: true,
            noUncheckedIndexedAccess: true,
            exactOptionalPropertyTypes: true,
            lib: ['es2023', 'dom'],
            types: [],
            outDir: 'out',
            rootDir: 'src',
          },
          include: ['src'],
        }),
      )
      const node = (script: string, ...args: ReadonlyArray<string>) =>
        runTool(process.execPath, [join(tool.folder, 'node_modules', script), ...args], {
          cwd: dir,
          withinMs: STEP_WITHIN_MS,
        })
      const generated = await node('openapi-typescript/bin/cli.js', 'openapi.json', '-o', 'src/hub.d.ts')
      expect(generated.code, generated.text).toBe(0)
      const compiled = await node('typescript/bin/tsc', '--project', 'tsconfig.json')
      expect(compiled.code, compiled.text).toBe(0)
      const ran = await runTool(process.execPath, [join(dir, 'out/program.js'), base_url, keys.test], {
        cwd: dir,
        withinMs: STEP_WITHIN_MS,
      })
      expect(ran.code, ran.text).toBe(0)
      expect(JSON.parse(ran.text)).toMatchObject({
        status: 202,
        id: expect.stringMatching(/^bat_/u),
        counts: { total: 3, accepted: 2, rejected: 1, duplicate: 0 },
        outcomes: [expect.stringMatching(/^msg_/u), expect.stringMatching(/^msg_/u), 'recipient_invalid'],
        text: 'Заказ 1 готов',
        estimated: 200,
        events: 'list',
        stats: 'stats',
        refused: 'not_found',
      })
    },
    4 * STEP_WITHIN_MS,
  )
})
