import { createHmac, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { makeOperator, type Operator } from './operator.ts'
import { runReporter } from './reporter.ts'
import { makeServer } from './server.ts'

const SECRET = randomBytes(16).toString('hex')

interface Callback {
  readonly signature: string
  readonly body: string
}

interface DeliveryReport {
  readonly operator_id: string
  readonly reference: string
  readonly status: string
  readonly reason: string | null
}

const listen = (server: Server): Promise<string> =>
  new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () =>
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    ),
  )

const closed = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

let dir = ''
let callbacks: Array<Callback> = []
/** The status codes for the next callbacks. Then 200. */
let answers: Array<number> = []
let hub: Server
let hubUrl = ''

/** Starts a simulator in this process. */
const start = async (): Promise<{ url: string; operator: Operator; stop: () => Promise<void> }> => {
  const operator = makeOperator(join(dir, 'journal.jsonl'), SECRET)
  const server = makeServer(operator, SECRET)
  const url = await listen(server)
  const ending = new AbortController()
  const reporting = runReporter({
    operator,
    callbackUrl: `${hubUrl}/reports`,
    secret: SECRET,
    signal: ending.signal,
  })
  return {
    url,
    operator,
    stop: async () => {
      ending.abort()
      await closed(server)
      await reporting
      operator.close()
    },
  }
}

let simulator: Awaited<ReturnType<typeof start>>

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'hub-operator-'))
  callbacks = []
  answers = []
  hub = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString('utf8')))
    request.on('end', () => {
      callbacks.push({ signature: String(request.headers['hub-operator-signature']), body })
      response.writeHead(answers.shift() ?? 200)
      response.end()
    })
  })
  hubUrl = await listen(hub)
  simulator = await start()
  simulator.operator.setBehaviour({ report_delay_ms: 0 })
})

afterEach(async () => {
  await simulator.stop()
  await closed(hub)
  await rm(dir, { recursive: true, force: true })
})

const submission = (reference: string, more: object = {}): object => ({
  reference,
  to: '+79001234567',
  text: 'Code 1234',
  sender: 'HUB',
  parts: 1,
  encoding: 'gsm7',
  validity_seconds: 300,
  ...more,
})

const submit = (body: unknown, secret = SECRET): Promise<Response> =>
  fetch(`${simulator.url}/submissions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const get = async (path: string): Promise<Record<string, unknown>> =>
  (await (await fetch(`${simulator.url}${path}`)).json()) as Record<string, unknown>

/** A generous limit. The expected events take milliseconds. */
const WITHIN = { timeout: 10_000, interval: 10 }

const reports = (): ReadonlyArray<DeliveryReport> =>
  callbacks.flatMap(({ body }) => JSON.parse(body) as ReadonlyArray<DeliveryReport>)

describe('submissions', () => {
  it('are answered in order, with an id for each part', async () => {
    const response = await submit([submission('msg_a', { parts: 3 }), submission('msg_b')])
    expect(response.status).toBe(200)
    expect(await response.json()).toEqual([
      { reference: 'msg_a', operator_ids: ['sim-1-1', 'sim-1-2', 'sim-1-3'], status: 'accepted' },
      { reference: 'msg_b', operator_ids: ['sim-2-1'], status: 'accepted' },
    ])
  })

  it('with a known reference get the same answer and no second reports, and are counted', async () => {
    const first = await (await submit([submission('msg_a')])).text()
    const again = await (await submit([submission('msg_a', { parts: 2 })])).text()
    expect(again).toBe(first)
    await vi.waitFor(() => expect(reports()).toHaveLength(1), WITHIN)
    expect(await get('/submissions/msg_a')).toMatchObject({ times: 2, operator_ids: ['sim-1-1'] })
    expect(await get('/statistics')).toMatchObject({ submissions: 2, references: 1, repeated: 1 })
  })

  it('are refused completely if the secret or an element is invalid', async () => {
    expect((await submit([submission('msg_a')], 'wrong')).status).toBe(401)
    const wrong: ReadonlyArray<unknown> = [
      {},
      [],
      [submission('msg_a'), null],
      [submission('msg_a'), submission('')],
      [submission('msg_a', { to: '79001234567' })],
      [submission('msg_a', { parts: 0 })],
      [submission('msg_a', { encoding: 'utf8' })],
      [submission('msg_a', { validity_seconds: 0 })],
    ]
    for (const body of wrong) expect((await submit(body)).status, JSON.stringify(body)).toBe(400)
    expect((await submit([submission('msg_a', { text: 'x'.repeat(3_000_000) })])).status).toBe(413)
    expect((await fetch(`${simulator.url}/submissions`, { method: 'PUT' })).status).toBe(405)
    expect((await fetch(`${simulator.url}/nowhere`)).status).toBe(404)
    expect(await get('/statistics')).toMatchObject({ submissions: 0, references: 0 })
  })

  it('above the rate are throttled and can be accepted later', async () => {
    simulator.operator.setBehaviour({ throttle_per_second: 0 })
    expect(await (await submit([submission('msg_a')])).json()).toEqual([
      { reference: 'msg_a', operator_ids: [], status: 'throttled' },
    ])
    simulator.operator.setBehaviour({ throttle_per_second: null })
    expect(await (await submit([submission('msg_a')])).json()).toMatchObject([{ status: 'accepted' }])
    expect(await get('/statistics')).toMatchObject({
      submissions: 2,
      throttled: 1,
      references: 1,
      repeated: 0,
    })
  })

  it('whose answer is dropped are accepted, and answered when they are repeated', async () => {
    simulator.operator.setBehaviour({ dropped_answer_percent: 100 })
    await expect(submit([submission('msg_a')])).rejects.toThrow('fetch failed')
    expect(await (await submit([submission('msg_a')])).json()).toMatchObject([{ status: 'accepted' }])
    expect(await get('/submissions/msg_a')).toMatchObject({ times: 2 })
  })
})

describe('delivery reports', () => {
  it('are signed over their body', async () => {
    await submit([submission('msg_a')])
    await vi.waitFor(() => expect(callbacks).toHaveLength(1), WITHIN)
    const [callback] = callbacks
    const [, seconds, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/u.exec(callback?.signature ?? '') ?? []
    expect(v1).toBe(createHmac('sha256', SECRET).update(`${seconds}.${callback?.body}`).digest('hex'))
    expect(reports()).toMatchObject([
      { operator_id: 'sim-1-1', reference: 'msg_a', status: 'delivered', reason: null },
    ])
  })

  it('are repeated until they are acknowledged', async () => {
    answers = [503, 401]
    await submit([submission('msg_a')])
    await vi.waitFor(
      async () =>
        expect(await get('/statistics')).toMatchObject({
          reports_sent: 3,
          reports_acknowledged: 1,
          reports_waiting: 0,
        }),
      WITHIN,
    )
    expect(reports().map(({ operator_id }) => operator_id)).toEqual(['sim-1-1', 'sim-1-1', 'sim-1-1'])
  })
})

describe('a restart', () => {
  it('keeps the accepted submissions, the counts and the pending reports', async () => {
    simulator.operator.setBehaviour({ report_delay_ms: 60_000 })
    const first = await (await submit([submission('msg_a'), submission('msg_b')])).text()
    await simulator.stop()
    simulator = await start()
    expect(await get('/statistics')).toMatchObject({ submissions: 2, references: 2, reports_waiting: 2 })
    expect(await (await submit([submission('msg_a'), submission('msg_b')])).text()).toBe(first)
  })

  it('does not repeat acknowledged reports', async () => {
    await submit([submission('msg_a')])
    await vi.waitFor(
      async () => expect(await get('/statistics')).toMatchObject({ reports_acknowledged: 1 }),
      WITHIN,
    )
    await simulator.stop()
    simulator = await start()
    expect(await get('/statistics')).toMatchObject({ reports_acknowledged: 1, reports_waiting: 0 })
  })
})
