/**
 * The command line: each command has complete help without a server, and one format of failures.
 */
import { readFileSync } from 'node:fs'
import { Context, Effect } from 'effect'
import { assert, describe, it } from 'vitest'
import { hubctlCommand } from './cli.ts'
import { Changes } from './command-line/command.ts'
import { hubctlPage, commandsOf } from './command-line/reference-page.ts'
import { runHubctl } from './testing/run-hubctl.ts'

/** An environment without a hub. */
const NOWHERE = { HUB_DATA_DIR: '/nonexistent' }

const commands = commandsOf(hubctlCommand)

describe('every command', () => {
  it.each(commands.map(({ command, path }) => [path.join(' '), path, command] as const))(
    '%s documents its effect, its changes and an example, without a hub',
    async (words, path, command) => {
      const ran = await runHubctl(NOWHERE, [...path, '--help'])
      assert.strictEqual(ran.code, 0, ran.err)
      assert.strictEqual(ran.err, '')
      assert.include(ran.out, 'Changes: ')
      assert.isNotEmpty(Context.get(command.annotations, Changes))
      assert.isNotEmpty(command.shortDescription)
      assert.isNotEmpty(command.examples)
      for (const example of command.examples) {
        assert.include(example.command, `hubctl ${words}`)
        assert.include(ran.out, example.command)
      }
    },
  )
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

  it.each(['bash', 'zsh', 'fish'])('prints a completion script for %s', async (shell) => {
    const ran = await runHubctl(NOWHERE, ['completion', shell])
    assert.strictEqual(ran.code, 0)
    assert.include(ran.out, 'audit')
  })

  it('prints its version', async () => {
    assert.include((await runHubctl(NOWHERE, ['--version'])).out, '0.3.3')
  })
})

describe('docs/hubctl.md', () => {
  it('matches the commands; otherwise run npm run generate', async () => {
    const page = readFileSync(new URL('../../../docs/hubctl.md', import.meta.url), 'utf8')
    assert.strictEqual(page, await Effect.runPromise(hubctlPage))
  })
})
