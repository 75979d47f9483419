/** Runs commands as they are in the documents, in a shell. */
import { mkdirSync, symlinkSync, existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Cluster } from '../cluster.ts'
import { writeOverlay } from '../deploy.ts'
import { script } from '../../support/shell.ts'

const WITHIN_MS = 600_000

/** `commands` gets the folder of the overlay, which has the tag. */
export const runDocumented = async (
  cluster: Cluster,
  commands: (overlay: string) => string,
  tag: string,
): Promise<string> => {
  const overlay = writeOverlay(cluster, { tag })
  const folder = join(cluster.dir, 'path')
  mkdirSync(folder, { recursive: true })
  const kubectl = join(folder, 'kubectl')
  if (cluster.own !== null && !existsSync(kubectl)) symlinkSync(cluster.own.programs.path('kubectl'), kubectl)
  return script(commands(overlay), {
    env: {
      KUBECONFIG: cluster.kubectl.kubeconfig,
      PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}`,
    },
    withinMs: WITHIN_MS,
  })
}
