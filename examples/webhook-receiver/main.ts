/**
 * An example webhook receiver. It listens on https://localhost, subscribes with the test key of the
 * local hub, verifies each signature, and prints the events. Ctrl-C stops it. The subscription
 * stays: address and secret are in the data folder, and the next start receives missed events.
 *
 * A hub refuses addresses that are not public and certificates of unknown authorities. The receiver
 * therefore writes the certificate of its own authority. Start the hub with:
 *
 *   HUB_WEBHOOK_ALLOWED_HOSTS=localhost HUB_WEBHOOK_CA_FILE=.local/receiver/ca.pem npm start
 */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { verifySignature } from '@hub/domain'
import { makeCertificateAuthority, type ServerCertificate } from '@hub/testkit'
import { lineOf } from './event-line.ts'

const dataDir = resolve(process.env['HUB_DATA_DIR'] ?? '.local')
const caFile = join(dataDir, 'receiver', 'ca.pem')
const hubFile = join(dataDir, 'hub.json')

const tlsFile = join(dataDir, 'receiver', 'tls.json')
const stateFile = join(dataDir, 'receiver', 'subscription.json')

interface Subscription {
  readonly id: string
  readonly port: number
  readonly secret: string
}
const stored: Subscription | null = existsSync(stateFile) ? JSON.parse(readFileSync(stateFile, 'utf8')) : null

/**
 * Returns the certificate, which is valid for a day. A certificate younger than 20 hours is used
 * again, because a running hub trusts only the authority that it was started with.
 */
const readCertificate = async (): Promise<ServerCertificate> => {
  mkdirSync(join(dataDir, 'receiver'), { recursive: true })
  if (existsSync(tlsFile) && Date.now() - statSync(tlsFile).mtimeMs < 20 * 3_600_000) {
    return JSON.parse(readFileSync(tlsFile, 'utf8'))
  }
  const authority = await makeCertificateAuthority()
  const certificate = await authority.issue(['localhost', '127.0.0.1'])
  writeFileSync(caFile, authority.pem)
  writeFileSync(tlsFile, JSON.stringify(certificate), { mode: 0o600 })
  return certificate
}

let secret: string | null = null
const seen = new Set<string>()

const server = createServer(await readCertificate(), (request, response) => {
  const chunks: Array<Buffer> = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    // The signature covers the raw bytes, so verify before parsing.
    const body = Buffer.concat(chunks)
    const signature = String(request.headers['hub-signature'])
    if (secret === null || !verifySignature(signature, [secret], body, Date.now() / 1000)) {
      console.log('Refused a request with an invalid signature.')
      response.writeHead(400).end()
      return
    }
    // Answer first: the hub waits ten seconds for the answer. Process the events afterwards.
    response.writeHead(204).end()
    for (const event of JSON.parse(body.toString('utf8'))) {
      // Delivery is at least once: drop repeats by the id of the event.
      if (seen.has(event.id)) continue
      seen.add(event.id)
      console.log(lineOf(event))
    }
  })
})
await new Promise<void>((listening) => server.listen(stored?.port ?? 0, '127.0.0.1', listening))
const { port } = server.address() as AddressInfo

if (!existsSync(hubFile)) {
  console.log('Start the hub in another terminal:\n')
  console.log(`  HUB_WEBHOOK_ALLOWED_HOSTS=localhost HUB_WEBHOOK_CA_FILE=${caFile} npm start\n`)
}

/**
 * Waits for a hub and subscribes, unless the subscription of an earlier run exists. Returns its
 * secret.
 */
const subscribe = async (): Promise<string> => {
  for (;;) {
    try {
      const hub = JSON.parse(readFileSync(hubFile, 'utf8'))
      const headers = { authorization: `Bearer ${hub.keys.test}`, 'content-type': 'application/json' }
      const endpoints = `${hub.base_url}/v1/webhook_endpoints`
      if (stored !== null && (await fetch(`${endpoints}/${stored.id}`, { headers })).status === 200)
        return stored.secret
      const url = `https://localhost:${port}/`
      const response = await fetch(endpoints, { method: 'POST', headers, body: JSON.stringify({ url }) })
      const answer = (await response.json()) as { id: string; secret: string; error?: { message: string } }
      if (response.status === 201) {
        writeFileSync(stateFile, JSON.stringify({ id: answer.id, port, secret: answer.secret }), {
          mode: 0o600,
        })
        return answer.secret
      }
      console.log(`The hub refused the subscription: ${answer.error?.message}`)
      console.log(`Start it with HUB_WEBHOOK_ALLOWED_HOSTS=localhost HUB_WEBHOOK_CA_FILE=${caFile}.`)
      process.exit(1)
    } catch {
      // The hub is not running yet, or not ready.
      await delay(500)
    }
  }
}

secret = await subscribe()
console.log(`Subscribed with https://localhost:${port}/. Send a message to see its events.`)
