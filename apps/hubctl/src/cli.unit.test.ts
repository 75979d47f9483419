/**
 * The command line: each command has complete help without a server, and one format of failures.
 */
import { commandLineContract } from '@hub/command-line/testing'
import { assert, describe, it } from 'vitest'
import { hubctlCommand } from './cli.ts'
import { hubctlPage } from './command-line/reference-page.ts'
import { runHubctl } from './testing/run-hubctl.ts'

/** An environment without a hub. */
const NOWHERE = { HUB_DATA_DIR: '/nonexistent' }

commandLineContract({
  program: hubctlCommand,
  run: (args) => runHubctl(NOWHERE, args),
  group: 'audit',
  page: { file: new URL('../../../docs/hubctl.md', import.meta.url), text: hubctlPage },
})

describe('hubctl', () => {
  it.each([[], ['audit']])('shows help if the command is incomplete: %s', async (...words) => {
    const ran = await runHubctl(NOWHERE, words)
    assert.strictEqual(ran.code, 2)
    assert.include(ran.out, 'USAGE')
  })

  it.each([
    [['audit', 'lst'], 'lst'],
    [['audit', 'list', '--limt', '3'], '--limt'],
    [['audit', 'list', '--limit', '0'], '--limit'],
    [['audit', 'list', 'more'], 'more'],
    [['completion'], 'shell'],
  ])('reports a wrong command line on standard error: %j', async (words, about) => {
    const ran = await runHubctl(NOWHERE, words)
    assert.deepStrictEqual([ran.code, ran.out], [2, ''])
    assert.include(ran.err, about)
    assert.include(ran.err, '(usage)')
  })

  it('reports failures as JSON with --json', async () => {
    const ran = await runHubctl(NOWHERE, ['audit', 'list', '--json'])
    assert.deepStrictEqual([ran.code, ran.out], [3, ''])
    assert.strictEqual(JSON.parse(ran.err).error.code, 'no_hub')
  })

  it('prints a script that loads the completion system of zsh before it uses it', async () => {
    const { out } = await runHubctl(NOWHERE, ['completion', 'zsh'])
    assert.isBelow(out.indexOf('autoload -Uz compinit && compinit'), out.indexOf('compdef _hubctl hubctl'))
    assert.include(out, 'compinit')
  })

  it.each([
    [['audt'], 'Unknown subcommand "audt" for "hubctl". Did you mean audit? See: hubctl --help'],
    [['keys', 'isue'], 'for "hubctl keys". Did you mean issue? See: hubctl keys --help'],
    [['audit', 'list', '--limt', '3'], 'Did you mean --limit? See: hubctl audit list --help'],
  ])('suggests the command or flag that a mistyped one means, on one line: %j', async (words, sentence) => {
    const ran = await runHubctl(NOWHERE, words)
    assert.strictEqual(ran.code, 2)
    assert.include(ran.err, sentence)
    assert.notInclude(ran.err.trim(), '\n')
  })

  it('suggests the setting that a mistyped variable means', async () => {
    const ran = await runHubctl({ ...NOWHERE, HUB_DATABSE_URL: 'x', HUBCTL_ACTR: 'x' }, ['config'])
    assert.include(ran.err, 'HUB_DATABSE_URL is no setting of the hub and has no effect; HUB_DATABASE_URL is')
    assert.include(ran.err, 'HUBCTL_ACTR is no setting of the hub and has no effect; HUBCTL_ACTOR is')
  })

  it.each(['dispatcher', 'hubctl', 'all'])(
    'refuses dangerous settings of %s, without their values',
    async (app) => {
      const ran = await runHubctl(
        {
          HUB_DEPLOYMENT: 'development',
          HUB_DATABASE_URL: 'postgres://hub:hidden-word@db.example.com/hub?sslmode=require',
          HUB_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
          HUB_NUMBER_HASH_SECRET: 'hash secret '.repeat(4),
          HUB_REDIS_URL: 'rediss://redis.example.com',
          HUB_KAFKA_BROKERS: '127.0.0.1:9092',
          HUB_ADMIN_PORT: '9090',
        },
        ['config', '--app', app, '--json'],
      )
      assert.strictEqual(ran.code, 1)
      const { mistakes } = ran.json<{ readonly mistakes: ReadonlyArray<string> }>()
      assert.lengthOf(mistakes, 2)
      assert.match(mistakes.join(' '), /HUB_MASTER_KEY repeats one byte\. .+ HUB_DATABASE_URL allows/u)
      assert.notInclude(ran.out + ran.err, 'hidden-word')
      assert.include(ran.err, 'settings_invalid')
    },
  )

  it('prints its version', async () => {
    assert.include((await runHubctl(NOWHERE, ['--version'])).out, '0.4.0')
  })
})
