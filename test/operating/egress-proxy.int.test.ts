/** Deliveries through tinyproxy, an HTTP proxy that is not ours. The settings of the hub name it. */
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as NodeFileSystem from '@effect/platform-node/NodeFileSystem'
import { freePortBase } from '@hub/local-stack'
import { accepts, eventually, makeCertificateAuthority, tlsReceiver } from '@hub/testkit'
import { AddressPolicy, AttemptNotMade, type Delivery, makeAddressPolicy, WebhookClient } from '@hub/webhooks'
import { ConfigProvider, Context, Effect, Layer, Redacted } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { debianTool, type Found, orSkip } from '../support/external-tools.ts'
import { type Program, startProgram } from '../support/program.ts'

const LOGIN = { user: 'hub', password: 'proxy-7Xq2mZ9pLw' }
/** Only ends a delivery that hangs. */
const DEADLINE_MS = 60_000

let found: Found<{ readonly folder: string }>
let folder = ''
const running: Array<Program> = []
beforeAll(async () => {
  found = await debianTool('tinyproxy', ['tinyproxy-bin'])
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'egress-proxy-'))
})
afterAll(async () => {
  await Promise.all(running.map(({ stop }) => stop()))
  rmSync(folder, { recursive: true, force: true })
})

/** Starts tinyproxy, which connects only to one port. Returns its own port. */
const startProxy = async (tool: string, receiverPort: number): Promise<number> => {
  const port = await freePortBase()
  const file = join(folder, `${port}.conf`)
  writeFileSync(
    file,
    `Port ${port}
Listen 127.0.0.1
Allow 127.0.0.1
BasicAuth ${LOGIN.user} ${LOGIN.password}
ConnectPort ${receiverPort}
`,
  )
  running.push(startProgram(join(tool, 'usr/bin/tinyproxy'), ['-d', '-c', file]))
  await eventually(() => accepts(port))
  return port
}

/** The client of the fan-out, with the settings of a process. */
const clientThrough = (proxy: string, caFile: string) =>
  Layer.build(WebhookClient.layer).pipe(
    Effect.map((context) => Context.get(context, WebhookClient)),
    Effect.provide(NodeFileSystem.layer),
    Effect.provideService(AddressPolicy, makeAddressPolicy({ allowedHosts: new Set(['127.0.0.1']) })),
    Effect.provide(
      ConfigProvider.layer(
        ConfigProvider.fromUnknown({ HUB_WEBHOOK_PROXY_URL: proxy, HUB_WEBHOOK_CA_FILE: caFile }),
      ),
    ),
  )

describe('tinyproxy', () => {
  // Rules: DEL-28
  it('carries deliveries with the client certificate of each subscription', async (context) => {
    const tool = await orSkip(context, found)
    await Effect.runPromise(
      Effect.gen(function* () {
        const [authority, clients] = yield* Effect.promise(() =>
          Promise.all([makeCertificateAuthority(), makeCertificateAuthority()]),
        )
        const [server, first, second] = yield* Effect.promise(() =>
          Promise.all([authority.issue(['127.0.0.1']), clients.issue(['hub']), clients.issue(['hub'])]),
        )
        const caFile = join(folder, 'ca.pem')
        writeFileSync(caFile, authority.pem)
        const receiver = yield* tlsReceiver(server, { clients: { ca: clients.pem, required: true } })
        const port = yield* Effect.promise(() => startProxy(tool.folder, receiver.port))
        const delivery = (own: NonNullable<Delivery['clientCertificate']> | null): Delivery => ({
          url: receiver.url(),
          eventBatch: 'evb_01',
          body: Buffer.from('[]'),
          secrets: [Redacted.make('whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=')],
          clientCertificate: own,
        })
        const deadline = { deadlineMs: DEADLINE_MS }
        const { password, user } = LOGIN
        const client = yield* clientThrough(`http://${user}:${password}@127.0.0.1:${port}`, caFile)
        for (const { cert, key } of [first, second]) {
          const own = Redacted.make({ certificate: cert, privateKey: key })
          expect(yield* client.deliver(delivery(own), deadline)).toMatchObject({ succeeded: true })
        }
        expect(receiver.received.map(({ clientFingerprint }) => clientFingerprint)).toEqual(
          [first, second].map(({ cert }) => new X509Certificate(cert).fingerprint256),
        )
        expect(yield* client.deliver(delivery(null), deadline)).toMatchObject({
          succeeded: false,
          reason: 'tls_error',
        })
        const refused = yield* clientThrough(`http://${user}:wrong@127.0.0.1:${port}`, caFile)
        expect(yield* Effect.flip(refused.deliver(delivery(null), deadline))).toBeInstanceOf(AttemptNotMade)
      }).pipe(Effect.scoped),
    )
  })
})
