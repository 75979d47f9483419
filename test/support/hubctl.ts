/** Runs the `hubctl` command line. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { programFile } from '@hub/local-stack'
import type { TestHub, TestStack } from './hub.ts'
import { runTool } from './external-tools.ts'

/** Only ends a command that hangs. */
const WITHIN_MS = 120_000

/**
 * Runs a command and returns its JSON document. Throws if the command fails. `servers` are the
 * connections to use; the secrets are those of `hub`. `change`: environment variables with other values.
 */
export const hubctl = async (
  servers: Pick<TestStack, 'brokers' | 'databaseUrl' | 'redisUrl'>,
  hub: TestHub,
  args: ReadonlyArray<string>,
  change: Readonly<Record<string, string>> = {},
): Promise<any> => {
  const secrets = JSON.parse(readFileSync(join(hub.dataDir, 'secrets.json'), 'utf8'))
  const { code, text } = await runTool(
    'env',
    [
      '-i',
      `PATH=${process.env['PATH'] ?? ''}`,
      `NODE_COMPILE_CACHE=${process.env['NODE_COMPILE_CACHE'] ?? ''}`,
      `HUB_DATABASE_URL=${servers.databaseUrl}`,
      `HUB_REDIS_URL=${servers.redisUrl}`,
      `HUB_KAFKA_BROKERS=${servers.brokers.join(',')}`,
      `HUB_MASTER_KEY=${secrets.masterKey}`,
      `HUB_NUMBER_HASH_SECRET=${secrets.numberHashSecret}`,
      `HUB_BASE_URL=${hub.describe().base_url}`,
      ...Object.entries(change).map(([name, value]) => `${name}=${value}`),
      process.execPath,
      await programFile('hubctl'),
      ...args,
      '--json',
      '--yes',
    ],
    { withinMs: WITHIN_MS },
  )
  if (code !== 0) throw new Error(`hubctl ${args.join(' ')} ended with exit code ${code}:\n${text}`)
  // The JSON document comes first, and warnings may follow it.
  return JSON.parse(text.slice(0, text.lastIndexOf('}') + 1))
}
