/**
 * An example webhook receiver. It listens on https://localhost, subscribes with the test key of the
 * local hub, verifies each signature, and prints the events. Start it before or after the hub. Ctrl-C
 * stops it. The subscription stays: its address and secret are in the data folder, and the next start
 * receives missed events.
 *
 * A hub delivers webhooks only with https, so the local hub issues a certificate for localhost. A
 * receiver in production has one of a public authority.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { onOneLine } from '@hub/text'
import {
  createHubClient,
  HubError,
  HubNotFoundError,
  readEvents,
  WebhookSignatureError,
} from '@sms-delivery-hub/client'

/** The widest type is `webhook.endpoint_disabled`. */
const TYPE_WIDTH = 26

const dataDir = resolve(process.env['HUB_DATA_DIR'] ?? '.local')
const hubFile = join(dataDir, 'hub.json')
const tlsFile = join(dataDir, 'receiver', 'tls.json')
const stateFile = join(dataDir, 'receiver', 'subscription.json')

interface Subscription {
  readonly id: string
  readonly port: number
  readonly secret: string
}
const stored: Subscription | null = existsSync(stateFile) ? JSON.parse(readFileSync(stateFile, 'utf8')) : null

if (!existsSync(hubFile)) console.log('Waiting for the hub. Start it in another terminal: npm start')
while (!existsSync(hubFile)) await delay(500)

let secret = stored?.secret ?? ''
const seen = new Set<string>()

const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  try {
    // The signature covers the raw bytes, so verify before parsing.
    const events = await readEvents(await buffer(request), request.headers['hub-signature'], secret)
    // Answer first: the hub waits ten seconds for the answer. Process the events afterwards.
    response.writeHead(204).end()
    for (const event of events) {
      // Delivery is at least once: drop repeats by the id of the event.
      if (seen.has(event.id)) continue
      seen.add(event.id)
      const { id = '', status = '' } = event.data.object as Readonly<Record<string, unknown>>
      // Another hub may send characters that a terminal obeys.
      console.log(onOneLine([event.created_at, event.type.padEnd(TYPE_WIDTH), id, status].join('  ')))
    }
  } catch (error) {
    // Otherwise the connection broke, and the hub delivers again.
    if (error instanceof WebhookSignatureError) console.log(onOneLine(`Refused a request: ${error.message}`))
    response.writeHead(400).end()
  }
}

const tls = JSON.parse(readFileSync(tlsFile, 'utf8'))
const server = createServer(tls, (request, response) => void receive(request, response))
await new Promise<void>((listening) => server.listen(stored?.port ?? 0, '127.0.0.1', listening))
const { port } = server.address() as AddressInfo
const url = `https://localhost:${port}/`

/** Subscribes, unless the subscription of an earlier run exists. Returns its secret. */
const subscribe = async (): Promise<string> => {
  const { base_url: baseUrl, keys } = JSON.parse(readFileSync(hubFile, 'utf8'))
  const hub = createHubClient({ baseUrl, apiKey: keys.test })
  if (stored !== null) {
    try {
      await hub.webhookEndpoints.get(stored.id)
      return stored.secret
    } catch (error) {
      // The data of the hub was deleted.
      if (!(error instanceof HubNotFoundError)) throw error
    }
  }
  const created = await hub.webhookEndpoints.create({ url })
  const subscription: Subscription = { id: created.id, port, secret: created.secret }
  writeFileSync(stateFile, JSON.stringify(subscription), { mode: 0o600 })
  return created.secret
}

try {
  secret = await subscribe()
  console.log(`Subscribed with ${url}. Send a message to see its events.`)
} catch (error) {
  if (!(error instanceof HubError)) throw error
  console.error(onOneLine(`The subscription failed: ${error.message}`))
  process.exit(1)
}
