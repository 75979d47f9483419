/** A webhook receiver for tests, and the environment variables that let a hub deliver to it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  makeCertificateAuthority,
  type Received,
  statusResponse,
  tlsReceiver,
  type TlsReceiver,
} from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'

export interface WebhookReceiver extends TlsReceiver {
  /** Environment variables for the apps of the hub. */
  readonly environment: Readonly<Record<string, string>>
  readonly close: () => Promise<void>
}

/** Starts a receiver with a TLS certificate. It answers every request with `status`. */
export const startWebhookReceiver = async (status = 200): Promise<WebhookReceiver> => {
  const authority = await makeCertificateAuthority()
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'ca-'))
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', removeFolder)
  const caFile = join(folder, 'ca.pem')
  writeFileSync(caFile, authority.pem)
  const scope = Effect.runSync(Scope.make())
  const receiver = await Effect.runPromise(
    Scope.provide(
      tlsReceiver(await authority.issue(['127.0.0.1']), { respond: statusResponse(status) }),
      scope,
    ),
  )
  return {
    ...receiver,
    environment: { HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1', HUB_WEBHOOK_CA_FILE: caFile },
    close: async () => {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      process.removeListener('exit', removeFolder)
      removeFolder()
    },
  }
}

/** Returns the events in received requests, each as often as it was delivered. */
export const eventsIn = (requests: ReadonlyArray<Received>): ReadonlyArray<any> =>
  requests.flatMap(({ body }) => JSON.parse(body.toString('utf8')) as ReadonlyArray<any>)
