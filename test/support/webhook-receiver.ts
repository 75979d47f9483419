/** A webhook receiver that answers 200, and the environment that lets a hub reach it. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { statusResponse, makeCertificateAuthority, tlsReceiver, type TlsReceiver } from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'

export interface Hooks extends TlsReceiver {
  /** For the apps of the hub. */
  readonly environment: Readonly<Record<string, string>>
  readonly close: () => Promise<void>
}

export const receiveHooks = async (): Promise<Hooks> => {
  const authority = await makeCertificateAuthority()
  const caFile = join(mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'ca-')), 'ca.pem')
  writeFileSync(caFile, authority.pem)
  const scope = Effect.runSync(Scope.make())
  const receiver = await Effect.runPromise(
    Scope.provide(tlsReceiver(await authority.issue(['127.0.0.1']), { respond: statusResponse(200) }), scope),
  )
  return {
    ...receiver,
    environment: { HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1', HUB_WEBHOOK_CA_FILE: caFile },
    close: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  }
}
