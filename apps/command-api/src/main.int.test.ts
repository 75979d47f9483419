/** The process as its supervisor sees it. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { assert, describe, it } from 'vitest'

/** Enough for a start on a loaded machine. A process that does not end is a failure. */
const ENDS_WITHIN_MS = 60_000

const start = (env: Readonly<Record<string, string>>) => {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url))
  return spawnSync(process.execPath, [main], { env, encoding: 'utf8', timeout: ENDS_WITHIN_MS })
}

describe('a start with dangerous settings', () => {
  it('ends with exit code 1 before it connects, and names each setting without its value', () => {
    const { status, stdout } = start({
      HUB_PORT: '7300',
      HUB_ADMIN_PORT: '7390',
      HUB_BASE_URL: 'http://hub.example.com',
      HUB_DATABASE_URL: 'postgres://hub:private@db.invalid/hub',
      HUB_REDIS_URL: 'redis://:private@redis.invalid',
      HUB_KAFKA_BROKERS: 'kafka.invalid:9092',
      HUB_KAFKA_USERNAME: 'hub',
      HUB_KAFKA_PASSWORD: 'private',
      HUB_KAFKA_MECHANISM: 'plain',
      HUB_MASTER_KEY: Buffer.alloc(32).toString('base64'),
      HUB_NUMBER_HASH_SECRET: 'p'.repeat(64),
    })
    assert.strictEqual(status, 1)
    for (const name of [
      'HUB_BASE_URL',
      'HUB_DATABASE_URL',
      'HUB_REDIS_URL',
      'HUB_KAFKA_BROKERS',
      'HUB_KAFKA_MECHANISM',
      'HUB_MASTER_KEY',
      'HUB_NUMBER_HASH_SECRET',
    ]) {
      assert.include(stdout, `"variable":"${name}"`)
    }
    assert.notMatch(stdout, /private|pppp/u)
  })
})

describe('a start without settings', () => {
  it('ends with exit code 1 and logs all missing settings in the usual log format', () => {
    const { status, stderr, stdout } = start({})
    assert.strictEqual(status, 1)
    assert.strictEqual(stderr, '')
    const lines = stdout
      .trim()
      .split('\n')
      .map(
        (line) =>
          JSON.parse(line) as { readonly app: string; readonly level: string; readonly variable?: string },
      )
    const last = lines.pop()
    assert.deepInclude(last, { app: 'command-api', level: 'fatal' })
    // One start reports all mistakes, each with the name of its variable.
    for (const { app, level, variable } of lines) {
      assert.deepStrictEqual([app, level], ['command-api', 'error'])
      assert.include(JSON.stringify(last), variable ?? 'the name of a variable')
    }
    assert.includeMembers(
      lines.map(({ variable }) => variable),
      ['HUB_PORT', 'HUB_DATABASE_URL', 'HUB_MASTER_KEY'],
    )
  })
})
