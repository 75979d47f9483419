import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { makeOperator, type Operator } from '../operator.ts'
import { makeServer } from '../server.ts'
import { type Smsc, makeSmsc } from './smsc.ts'
import { type ClientSession, codec, type Pdu, STATUS } from './codec.ts'

const CREDENTIALS = { systemId: 'hub', password: 'secret' }
/** npm `smpp` would send the version 5.0, which SMPP 3.4 reserves (5.2.4). */
const CLIENT = { system_id: 'hub', password: 'secret', interface_version: 0x34 }
const NUMBER = '79001234567'

/** A generous limit. The expected events take milliseconds. */
const WITHIN = { timeout: 10_000, interval: 5 }

let dir = ''
let operator: Operator
let smsc: Smsc
let control: Server
let url = ''
let stop: () => Promise<void>
let clients: Array<ClientSession> = []

const listen = (server: Server): Promise<number> =>
  new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)),
  )

let port = 0
const start = async (answerWithinMs?: number): Promise<void> => {
  operator = makeOperator(join(dir, 'journal.jsonl'), 'a secret')
  smsc = makeSmsc(operator, CREDENTIALS, answerWithinMs)
  control = makeServer(operator, 'a secret', smsc)
  port = await listen(smsc.server)
  url = `http://127.0.0.1:${await listen(control)}`
  const ending = new AbortController()
  const running = smsc.run(ending.signal)
  stop = async () => {
    ending.abort()
    control.close()
    await running
    operator.close()
  }
}

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'hub-smsc-'))
  clients = []
  await start()
  operator.setBehaviour({ report_delay_ms: 0 })
})
afterEach(async () => {
  for (const client of clients) client.destroy()
  await stop()
  await rm(dir, { recursive: true, force: true })
})

interface Client {
  readonly session: ClientSession
  /** Sends a request and waits for its response. */
  readonly ask: (command: string, fields?: Readonly<Record<string, unknown>>) => Promise<Pdu>
  /** All received PDUs, in order. */
  readonly received: ReadonlyArray<Pdu>
  readonly delivered: () => ReadonlyArray<Pdu>
  readonly closed: Promise<void>
}

/** `acknowledge` returns the `command_status` of the responses to deliveries; `null`: no response. */
const connect = (acknowledge: () => number | null = () => STATUS.ok): Client => {
  const session = codec.connect({ host: '127.0.0.1', port })
  clients.push(session)
  const received: Array<Pdu> = []
  session.on('error', () => {})
  session.on('pdu', (pdu) => {
    received.push(pdu)
    if (pdu.command !== 'deliver_sm') return
    const status = acknowledge()
    if (status !== null) session.send(pdu.response({ command_status: status }))
  })
  return {
    session,
    received,
    delivered: () => received.filter(({ command }) => command === 'deliver_sm'),
    ask: (command, fields = {}) =>
      new Promise((resolve) => void session.send(new codec.PDU(command, fields), resolve)),
    closed: new Promise((resolve) => session.on('close', resolve)),
  }
}

const bound = async (
  command = 'bind_transceiver',
  acknowledge: () => number | null = () => STATUS.ok,
): Promise<Client> => {
  const client = connect(acknowledge)
  const answer = await client.ask(command, CLIENT)
  expect(answer.command_status).toBe(STATUS.ok)
  return client
}

const message = (more: Readonly<Record<string, unknown>> = {}) => ({
  source_addr: 'HUB',
  destination_addr: NUMBER,
  registered_delivery: 1,
  short_message: 'Code 1234',
  ...more,
})

const json = async (path: string, init?: RequestInit): Promise<Record<string, unknown>> =>
  (await (await fetch(url + path, init)).json()) as Record<string, unknown>

const find = (text: string): Promise<Record<string, unknown>> =>
  json(`/submissions?${new URLSearchParams({ to: `+${NUMBER}`, text }).toString()}`)

const textOf = (pdu: Pdu | undefined): string => String(pdu?.short_message?.message)

describe('binds', () => {
  it('require correct credentials, one bind per session, and a bind type that allows the request', async () => {
    const stranger = connect()
    const wrong = (fields: object) => stranger.ask('bind_transceiver', { ...CLIENT, ...fields })
    expect((await stranger.ask('submit_sm', message())).command_status).toBe(0x04)
    expect((await wrong({ system_id: 'who' })).command_status).toBe(STATUS.invalidSystemId)
    expect((await wrong({ password: 'no' })).command_status).toBe(STATUS.invalidPassword)
    const receiver = await bound('bind_receiver')
    expect((await receiver.ask('submit_sm', message())).command_status).toBe(0x04)
    expect((await receiver.ask('bind_transmitter')).command_status).toBe(0x05)
    expect((await receiver.ask('enquire_link')).command_status).toBe(STATUS.ok)
    expect((await receiver.ask('query_sm')).command_status).toBe(STATUS.invalidCommand)
    expect((await json('/binds'))['binds']).toEqual(['bind_receiver'])
    expect((await receiver.ask('unbind')).command_status).toBe(STATUS.ok)
    await receiver.closed
  })

  it('are reset by DELETE /binds', async () => {
    const client = await bound()
    expect(await json('/binds', { method: 'DELETE' })).toEqual({ dropped: 1 })
    await client.closed
  })

  it('are closed after an unreadable PDU', async () => {
    const client = await bound()
    client.session.socket.write(Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]))
    await client.closed
  })
})

describe('submissions', () => {
  it('are answered with ids, reported with these ids, and counted by number and text', async () => {
    const transmitter = await bound('bind_transmitter')
    const receiver = await bound('bind_receiver')
    const first = await transmitter.ask('submit_sm', message())
    const second = await transmitter.ask('submit_sm', message())
    expect(first.message_id).not.toBe(second.message_id)
    await vi.waitFor(() => expect(receiver.delivered()).toHaveLength(2), WITHIN)
    const [receipt] = receiver.delivered()
    expect(receipt).toMatchObject({
      source_addr: NUMBER,
      destination_addr: 'HUB',
      esm_class: 4,
      receipted_message_id: first.message_id,
      message_state: 2,
    })
    expect(textOf(receipt)).toMatch(
      new RegExp(
        `^id:${first.message_id} sub:001 dlvrd:001 submit date:\\d{10} done date:\\d{10} stat:DELIVRD err:000 text:$`,
        'u',
      ),
    )
    await vi.waitFor(
      async () =>
        expect(await find('Code 1234')).toMatchObject({
          times: 2,
          operator_ids: [first.message_id, second.message_id],
          reports: [{ acknowledged: true }, { acknowledged: true }],
        }),
      WITHIN,
    )
    expect(await json('/statistics')).toMatchObject({
      submissions: 2,
      references: 1,
      repeated: 1,
      parts: 2,
      reports_acknowledged: 2,
      binds: 2,
    })
    const journal = readFileSync(join(dir, 'journal.jsonl'), 'utf8')
    expect(journal).not.toContain(NUMBER)
    expect(journal).not.toContain('1234')
  })

  it('of several parts count as one message, and each part is reported', async () => {
    const client = await bound()
    const part = (sequence: number, text: string) =>
      message({
        data_coding: 8,
        short_message: { udh: Buffer.from([6, 8, 4, 1, 2, 2, sequence]), message: text },
      })
    await client.ask('submit_sm', part(2, 'готов'))
    expect(await json('/statistics')).toMatchObject({ submissions: 0, unfinished: 1 })
    await client.ask('submit_sm', part(1, 'Заказ '))
    expect(await find('Заказ готов')).toMatchObject({ times: 1, status: 'accepted' })
    await vi.waitFor(() => expect(client.delivered()).toHaveLength(2), WITHIN)
  })

  it('are rejected, throttled and reported according to their number', async () => {
    const client = await bound()
    const to = (last: string) => client.ask('submit_sm', message({ destination_addr: `790000000${last}` }))
    expect((await to('05')).command_status).toBe(STATUS.spam)
    expect((await to('11')).command_status).toBe(STATUS.throttled)
    const { message_id } = await to('03')
    await vi.waitFor(() => expect(client.delivered()).toHaveLength(1), WITHIN)
    expect(client.delivered()[0]).toMatchObject({ receipted_message_id: message_id, message_state: 5 })
    expect(textOf(client.delivered()[0])).toContain('stat:UNDELIV err:002')
    await to('10')
    await vi.waitFor(() => expect(client.delivered()).toHaveLength(3), WITHIN)
    expect(client.delivered().map(({ esm_class }) => esm_class)).toEqual([4, 4, 16])
    expect(textOf(client.delivered()[2])).toContain('stat:READ')
    expect(client.delivered()[2]?.message_state).toBeUndefined()
    const nobody = await client.ask('submit_sm', message({ destination_addr: 'nobody' }))
    expect(nobody.command_status).toBe(STATUS.invalidDestination)
  })

  it('can be answered in hexadecimal and reported in decimal', async () => {
    operator.setBehaviour({ id_form: 'hexadecimal_answer', receipt_form: 'text' })
    const client = await bound()
    const { message_id } = await client.ask('submit_sm', message())
    await vi.waitFor(() => expect(client.delivered()).toHaveLength(1), WITHIN)
    const [receipt] = client.delivered()
    expect(receipt?.receipted_message_id).toBeUndefined()
    expect(textOf(receipt)).toContain(`id:${BigInt(`0x${message_id}`)} `)
  })

  it('can be reported before they are answered', async () => {
    operator.setBehaviour({ receipts_before_answer: true })
    const client = await bound()
    await client.ask('submit_sm', message())
    expect(client.received.map(({ command }) => command)).toEqual([
      'bind_transceiver_resp',
      'deliver_sm',
      'submit_sm_resp',
    ])
  })

  it('can be left unanswered, or answered with a closed connection', async () => {
    operator.setBehaviour({ unanswered_percent: 100, silent_percent: 100 })
    const client = await bound()
    let answered = 0
    client.session.send(new codec.PDU('submit_sm', message()), () => answered++)
    await vi.waitFor(async () => expect(await json('/statistics')).toMatchObject({ parts: 1 }), WITHIN)
    await client.ask('enquire_link')
    expect(answered).toBe(0)
    operator.setBehaviour({ unanswered_percent: 0, dropped_answer_percent: 100 })
    client.session.send(new codec.PDU('submit_sm', message()), () => answered++)
    await client.closed
    expect(answered).toBe(0)
    expect(await json('/statistics')).toMatchObject({ parts: 2 })
  })
})

describe('deliveries', () => {
  it('are repeated until they are acknowledged, also over another bind and after a restart', async () => {
    const refusing = await bound('bind_transceiver', () => STATUS.throttled)
    const { message_id } = await refusing.ask('submit_sm', message())
    await vi.waitFor(() => expect(refusing.delivered().length).toBeGreaterThan(1), WITHIN)
    refusing.session.destroy()
    await vi.waitFor(async () => expect(await json('/statistics')).toMatchObject({ binds: 0 }), WITHIN)
    await stop()
    await start()
    expect(await json('/statistics')).toMatchObject({ reports_waiting: 1, parts: 1 })
    const client = await bound('bind_receiver')
    await vi.waitFor(() => expect(client.delivered()).toHaveLength(1), WITHIN)
    expect(client.delivered()[0]).toMatchObject({ receipted_message_id: message_id, source_addr: NUMBER })
    await vi.waitFor(
      async () =>
        expect(await json('/statistics')).toMatchObject({ reports_acknowledged: 1, reports_waiting: 0 }),
      WITHIN,
    )
  })

  it('close a bind that is silent, and go to another one', async () => {
    await stop()
    await start(500)
    operator.setBehaviour({ report_delay_ms: 0 })
    const silent = await bound('bind_receiver', () => null)
    const submitting = await bound('bind_transmitter')
    await submitting.ask('submit_sm', message())
    await vi.waitFor(() => expect(smsc.unacknowledged()).toBe(1), WITHIN)
    const other = await bound('bind_receiver')
    await silent.closed
    await vi.waitFor(() => expect(smsc.binds()).toEqual(['bind_transmitter', 'bind_receiver']), WITHIN)
    await vi.waitFor(() => expect(other.delivered()).toHaveLength(1), WITHIN)
    await vi.waitFor(() => expect(smsc.unacknowledged()).toBe(0), WITHIN)
  })

  it('send inbound messages, in parts if they are long', async () => {
    const inbound = (body: unknown) => fetch(`${url}/inbound`, { method: 'POST', body: JSON.stringify(body) })
    expect((await inbound({ from: 'x', to: 'HUB', text: 'STOP' })).status).toBe(400)
    expect((await inbound({ from: `+${NUMBER}`, to: 'HUB', text: '' })).status).toBe(400)
    const short = await inbound({ from: `+${NUMBER}`, to: '1234', text: 'СТОП' })
    expect([short.status, await short.json()]).toEqual([202, { parts: 1 }])
    const client = await bound()
    await vi.waitFor(() => expect(client.delivered()).toHaveLength(1), WITHIN)
    expect(client.delivered()[0]).toMatchObject({
      source_addr: NUMBER,
      destination_addr: '1234',
      esm_class: 0,
    })
    expect(textOf(client.delivered()[0])).toBe('СТОП')
    await inbound({ from: `+${NUMBER}`, to: '1234', text: 'a'.repeat(200) })
    await vi.waitFor(() => expect(client.delivered()).toHaveLength(3), WITHIN)
    expect(
      client
        .delivered()
        .slice(1)
        .map((pdu) => textOf(pdu).length),
    ).toEqual([153, 47])
    await vi.waitFor(
      async () => expect(await json('/statistics')).toMatchObject({ inbound: 3, inbound_acknowledged: 3 }),
      WITHIN,
    )
  })
})
