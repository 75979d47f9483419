/** The webhook receiver of `npm run bench -- cost`, and the settings with which a hub delivers to it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeCertificateAuthority } from '@hub/testkit'
import { startScript } from './child-process.ts'
import type { ReceiverPlan, Seen } from './receiver.ts'

export interface CostReceiver {
  readonly url: string
  /** For the apps of the hub. */
  readonly environment: Readonly<Record<string, string>>
  /**
   * For each full webhook batch since the last call: the time from the acceptance of its newest
   * message to its arrival, ms.
   */
  readonly times: () => Promise<ReadonlyArray<number>>
  readonly close: () => void
}

export const startCostReceiver = async (): Promise<CostReceiver> => {
  const directory = mkdtempSync(join(tmpdir(), 'hub-bench-receiver-'))
  const removeDirectory = (): void => rmSync(directory, { recursive: true, force: true })
  process.on('exit', removeDirectory)
  const authority = await makeCertificateAuthority()
  const caFile = join(directory, 'ca.pem')
  writeFileSync(caFile, authority.pem)
  const plan: ReceiverPlan = await authority.issue(['127.0.0.1'])
  const { child, first: port } = await startScript<number>('receiver.ts', plan)
  return {
    url: `https://127.0.0.1:${port}/acceptances`,
    environment: { HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1', HUB_WEBHOOK_CA_FILE: caFile },
    times: () =>
      new Promise((resolve) => {
        child.once('message', (seen: Seen) => resolve(seen.fromAcceptance))
        child.send('?')
      }),
    close: () => {
      child.disconnect()
      removeDirectory()
    },
  }
}
