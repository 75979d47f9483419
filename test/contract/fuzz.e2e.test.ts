/**
 * Schemathesis generates requests from the OpenAPI description. The hub must return no 500, no
 * undeclared status, and no body that violates its schema.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { client, send } from '../support/client.ts'
import { type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { orSkip, pythonTool, runTool } from '../support/external-tools.ts'

const VERSION = '4.32.5'
/**
 * Examples for each operation in the generation phase. The boundary phase adds one request for each
 * boundary, which takes most of the time. `HUB_FUZZ_EXAMPLES=500` makes a longer run.
 */
const EXAMPLES = Number(process.env['HUB_FUZZ_EXAMPLES'] ?? 10)
/** The minimum number of requests of a run. Most of them come from the boundary phase. */
const CASES = 1400
const WITHIN_MS = 400_000

let hub: TestHub
let admin: HubAdmin

beforeAll(async () => {
  hub = await startHub()
  admin = makeHubAdmin(hub)
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

describe('the OpenAPI description', () => {
  // Rules: VER-6, HTTP-8
  it(
    `holds for ${CASES} requests of a fuzzer`,
    async (context) => {
      const tool = await orSkip(context, pythonTool('schemathesis', VERSION))
      const { base_url } = hub.describe()
      const account = await admin.createAccount()
      const apiClient = client(base_url, account.keys.test)

      // Existing ids, so that reads find something.
      const template = await apiClient.post('/v1/templates', {
        name: 'fuzzed',
        class: 'service',
        sender: 'HUB',
        body: 'Hello',
      })
      const sender = await apiClient.post('/v1/senders', { name: 'FUZZ' })
      const endpoint = await apiClient.post('/v1/webhook_endpoints', { url: 'https://93.184.216.34/hook' })
      const batch = await apiClient.post('/v1/messages/batch', {
        messages: [send('service', '+79000000001', 'fuzzed-1'), send('otp', '+79000000003', 'fuzzed-2')],
      })
      expect([template, sender, endpoint, batch].map(({ status }) => status)).toEqual([201, 201, 201, 202])
      await eventually(
        async () => (await apiClient.get(`/v1/batches/${batch.body.id}`)).body.closed === true,
        { everyMs: 100 },
      )
      const [event] = (await apiClient.get('/v1/events?limit=1')).body.data

      const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'fuzz-'))
      const of = (path: string, name: string, value: string): string =>
        `[[operations]]\ninclude-path = "${path}"\nparameters = { "${name}" = "${value}" }\n`
      writeFileSync(
        join(dir, 'schemathesis.toml'),
        [
          of('/v1/messages/{id}', 'path.id', batch.body.results[0].message.id),
          of('/v1/messages', 'query.batch', batch.body.id),
          of('/v1/batches/{id}', 'path.id', batch.body.id),
          of('/v1/templates/{id}', 'path.id', template.body.id),
          of('/v1/templates/{id}/render', 'path.id', template.body.id),
          of('/v1/senders/{id}', 'path.id', sender.body.id),
          of('/v1/webhook_endpoints/{id}', 'path.id', endpoint.body.id),
          of('/v1/events', 'query.starting_after', event.id),
        ].join('\n'),
      )
      const { code, text } = await runTool(
        join(tool.folder, 'bin/python'),
        [
          '-m',
          'schemathesis.cli',
          'run',
          `${base_url}/v1/openapi.json`,
          '--header',
          `Authorization: Bearer ${account.keys.test}`,
          '--phases',
          'examples,coverage,fuzzing',
          '--max-examples',
          String(EXAMPLES),
          '--generation-deterministic',
          '--continue-on-failure',
          '--no-shrink',
          '--suppress-health-check',
          'all',
          // Two threads of CPython 3.11 corrupt their shared recursion count of syntax trees
          // (CPython issue 106905).
          '--workers',
          '1',
          '--request-timeout',
          '25',
          '--warnings',
          'off',
          '--checks',
          'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance',
          '--report',
          'ndjson',
          '--report-ndjson-path',
          join(dir, 'events.ndjson'),
        ],
        { cwd: dir, withinMs: WITHIN_MS },
      )
      expect(code, text.slice(-8000)).toBe(0)
      const cases = Number(/(\d[\d,]*) generated/u.exec(text)?.[1]?.replaceAll(',', '') ?? 0)
      expect(cases, text.slice(-2000)).toBeGreaterThanOrEqual(CASES)
      expect(readFileSync(join(dir, 'events.ndjson'), 'utf8').length).toBeGreaterThan(0)
      console.log(text.slice(text.lastIndexOf('= SUMMARY') - 40))
    },
    WITHIN_MS + 60_000,
  )
})
