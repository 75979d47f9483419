/**
 * An HTTP server with the answers of a hub, for what a command shows. It can hold a request for ever, so that a
 * test can end the command at this moment.
 */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'

const PRICE = { amount: '0.00', currency: 'RUB' }
const MESSAGE = {
  id: 'msg_1',
  object: 'message',
  status: 'accepted',
  final: false,
  reason_code: null,
  parts: 1,
  price: PRICE,
}
const ESTIMATE = { parts: 1, encoding: 'gsm7', characters: 5, price: PRICE }

interface Element {
  readonly client_ref?: string
  readonly variables?: Readonly<Record<string, string>>
}

interface Elements {
  readonly messages?: ReadonlyArray<Element>
}

/** It names no window, because none was checked. No client waits for this time. */
const UNCHECKED = {
  code: 'recipient_flood_limited',
  message: 'The messages of this recipient cannot be counted now.',
  param: 'messages[0].to',
  retry_after: 3600,
}

const listOf = (data: ReadonlyArray<unknown>): object => ({
  object: 'list',
  data,
  has_more: false,
  next_cursor: null,
})

export interface Options {
  /** The request that is never answered, such as `POST /v1/messages`. */
  readonly held?: string
  /** The number of messages that `GET /v1/messages` lists, `msg_1` to `msg_<number>`. */
  readonly messages?: number
  /** Requests with this `starting_after` are not answered before `release`. */
  readonly heldCursor?: string
  /** The `order` of a message in a batch that is rejected before `release`, because its windows cannot be checked. */
  readonly unchecked?: string
  /** The time that each answer to a batch or its estimate takes. */
  readonly batchMs?: number
}

export interface ScriptedHub {
  readonly url: string
  /** The folder in which a command finds this hub as it finds a local one. */
  readonly dataDir: string
  /** Records an event. */
  readonly record: (type: string) => string
  /** Which requests have arrived. */
  readonly requests: () => ReadonlySet<string>
  /** Answers requests with `heldCursor` from now on. */
  readonly release: () => void
  /** The `starting_after` of each request, in order; `null` without one. */
  readonly cursors: () => ReadonlyArray<string | null>
  /** The `order` of each message of a batch, in order of arrival. */
  readonly orders: () => ReadonlyArray<string | undefined>
  /** Waits until this request has arrived, such as `GET /v1/events`. */
  readonly arrived: (request: string) => Promise<unknown>
  /** Answers no more requests, also on open connections. */
  readonly stop: () => Promise<void>
  /** Answers again, at the same address. */
  readonly start: () => Promise<void>
}

export const startScriptedHub = async ({
  batchMs = 0,
  held,
  heldCursor,
  messages: messageCount = 0,
  unchecked,
}: Options = {}): Promise<ScriptedHub> => {
  const requests = new Set<string>()
  const cursors: Array<string | null> = []
  const orders: Array<string | undefined> = []
  let isReleased = false
  const events: Array<{ readonly id: string }> = []

  /** `null`: not found. */
  const answer = async (request: string, query: URLSearchParams, text: string): Promise<unknown> => {
    const { messages } = (text === '' ? {} : JSON.parse(text)) as Elements
    switch (request) {
      case 'GET /v1/account':
        return { id: 'acc_1', object: 'account', name: 'Shop', limits: { batch_max: 1 } }
      case 'GET /v1/templates':
        return listOf([
          { name: 'order_ready', class: 'service', status: 'approved', placeholders: ['order'] },
        ])
      case 'GET /v1/webhook_endpoints':
        return listOf([{ id: 'we_1', status: 'enabled', url: 'https://example.com/' }])
      case 'GET /v1/events': {
        const after = query.get('starting_after')
        const index = events.findIndex(({ id }) => id === after)
        if (after !== null && index === -1) return null
        const data = events.slice(index + 1)
        return { object: 'list', data, has_more: false, next_cursor: data.at(-1)?.id ?? after }
      }
      case 'GET /v1/messages': {
        const first = Number((query.get('starting_after') ?? 'msg_0').slice('msg_'.length)) + 1
        if (first > messageCount) return null
        const end = Math.min(messageCount + 1, first + Number(query.get('limit')))
        const data = Array.from({ length: end - first }, (_, index) => ({
          ...MESSAGE,
          id: `msg_${first + index}`,
        }))
        return { object: 'list', data, has_more: end <= messageCount, next_cursor: data.at(-1)?.id }
      }
      case 'POST /v1/messages':
      case 'GET /v1/messages/msg_1':
        return MESSAGE
      case 'POST /v1/messages/estimate':
        await delay(batchMs)
        return {
          object: 'list',
          data: (messages ?? []).map((_, index) => ({ index, ...ESTIMATE })),
          totals: { parts: messages?.length ?? 0, price: PRICE },
        }
      case 'POST /v1/messages/batch':
        await delay(batchMs)
        return {
          id: 'bat_1',
          results: (messages ?? []).map(({ client_ref, variables }) => {
            const order = variables?.['order']
            orders.push(order)
            return order !== undefined && order === unchecked && !isReleased
              ? { result: 'rejected', client_ref, error: UNCHECKED }
              : { result: 'accepted', client_ref, message: MESSAGE }
          }),
        }
      default:
        return null
    }
  }

  const server = createServer((incoming, response) => {
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://hub.example')
    const request = `${incoming.method} ${pathname}`
    let body = ''
    incoming.on('data', (chunk) => (body += String(chunk)))
    const reply = async (): Promise<void> => {
      requests.add(request)
      const cursor = searchParams.get('starting_after')
      cursors.push(cursor)
      if (request === held || (cursor !== null && cursor === heldCursor && !isReleased)) return
      const found = await answer(request, searchParams, body)
      const notFound = { error: { code: 'not_found', message: 'words', param: 'starting_after' } }
      response
        .writeHead(found === null ? 404 : 200, { 'content-type': 'application/json' })
        .end(JSON.stringify(found ?? notFound))
    }
    incoming.on('end', () => void reply())
  })
  const start = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  await start(0)
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const dataDir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'scripted-hub-'))
  writeFileSync(join(dataDir, 'hub.json'), JSON.stringify({ base_url: url, keys: { test: 'hub_test_x' } }), {
    mode: 0o600,
  })
  return {
    url,
    dataDir,
    record: (type) => {
      const id = `evt_${events.length + 1}`
      const object = { id: 'msg_1', object: 'message', status: type.split('.')[1] }
      const event = { id, object: 'event', type, created_at: new Date().toISOString(), data: { object } }
      events.push(event)
      return id
    },
    requests: () => requests,
    cursors: () => cursors,
    orders: () => orders,
    release: () => {
      isReleased = true
    },
    arrived: (request) => eventually(() => requests.has(request), { everyMs: 10 }),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
    start: () => start(port),
  }
}
