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

const SETTINGS = {
  HUB_OPERATIONS_PORT: '7305',
  HUB_ADMIN_PORT: '7390',
  HUB_OPERATIONS_URL: 'https://operations.example.com',
  HUB_DATABASE_URL: 'postgres://hub@127.0.0.1:1/hub',
  HUB_REDIS_URL: 'redis://127.0.0.1:1',
  HUB_KAFKA_BROKERS: '127.0.0.1:1',
  HUB_MASTER_KEY: Buffer.from('a master key that is no secret 1').toString('base64'),
  HUB_NUMBER_HASH_SECRET: 'a secret of at least 32 characters',
}

describe('a start in production', () => {
  it('is refused with login links, and with addresses that are not encrypted', () => {
    const { status, stdout } = start({
      ...SETTINGS,
      HUB_OPERATIONS_URL: 'http://operations.example.com',
      HUB_OPERATIONS_LOCAL_SECRET: 'private private private private private',
      HUB_OIDC_ISSUER: 'http://login.example.com',
      HUB_OIDC_CLIENT_ID: 'hub',
      HUB_OIDC_ROLES: '{"sms-admins": "admin"}',
    })
    assert.strictEqual(status, 1)
    for (const name of ['HUB_OPERATIONS_URL', 'HUB_OPERATIONS_LOCAL_SECRET', 'HUB_OIDC_ISSUER']) {
      assert.include(stdout, `"variable":"${name}"`)
    }
    assert.notInclude(stdout, 'private')
  })

  it('is refused with a provider that gives nobody a role, or an unknown one', () => {
    const provider = { HUB_OIDC_ISSUER: 'https://login.example.com', HUB_OIDC_CLIENT_ID: 'hub' }
    assert.include(start({ ...SETTINGS, ...provider }).stdout, 'HUB_OIDC_ROLES is not set')
    const unknown = start({ ...SETTINGS, ...provider, HUB_OIDC_ROLES: '{"sms-admins": "root"}' })
    assert.strictEqual(unknown.status, 1)
    assert.include(unknown.stdout, 'the roles are member, viewer, support, moderator, operator, admin')
  })
})
