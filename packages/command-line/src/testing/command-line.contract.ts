/** What the tests of each command line check: complete help, completion, and its reference page. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Context, Effect } from 'effect'
import type { Command } from 'effect/cli'
import { assert, describe, it } from 'vitest'
import { Changes } from '../command.ts'
import { commandsOf } from '../reference-page.ts'
import type { RunResult } from './capture-run.ts'

interface CommandLine {
  readonly program: Command.Command.Any
  /** Runs a command line without a hub. */
  readonly run: (args: ReadonlyArray<string>) => Promise<RunResult>
  /** A group with the command `list`, and no other command that begins with `l`. */
  readonly group: string
  /** The reference page: its file, and what the commands generate. */
  readonly page: { readonly file: URL; readonly text: Effect.Effect<string> }
}

export const commandLineContract = ({ group, page, program, run }: CommandLine): void => {
  const { name } = program

  describe('every command', () => {
    it.each(commandsOf(program).map(({ command, path }) => [path.join(' '), path, command] as const))(
      '%s documents its effect, its changes and an example, without a hub',
      async (words, path, command) => {
        const ran = await run([...path, '--help'])
        assert.strictEqual(ran.code, 0, ran.err)
        assert.strictEqual(ran.err, '')
        assert.include(ran.out, 'Changes: ')
        assert.isNotEmpty(Context.get(command.annotations, Changes))
        assert.isNotEmpty(command.shortDescription)
        assert.isNotEmpty(command.examples)
        for (const example of command.examples) {
          assert.include(example.command, `${name} ${words}`)
          assert.include(ran.out, example.command)
        }
      },
    )
  })

  describe('completion', () => {
    it.each(['bash', 'zsh', 'fish'])('prints a script for %s', async (shell) => {
      const ran = await run(['completion', shell])
      assert.strictEqual(ran.code, 0)
      assert.include(ran.out, group)
      // A comment of the library names a flag that no program has.
      assert.notInclude(ran.out, '--completions')
    })

    it.each([['--posix'], ['-eu']])('prints a script that bash %s reads with source', async (mode) => {
      const { out } = await run(['completion', 'bash'])
      const line = `${name} ${group} l`
      const ask = `COMP_LINE="${line}"; COMP_POINT=${line.length}; COMP_WORDS=(${line}); COMP_CWORD=2`
      const { stderr, stdout } = spawnSync(
        'bash',
        // With a socket as input, bash reads the settings of interactive shells otherwise.
        ['--norc', mode, '-c', `eval "$(cat)"; ${ask}; _${name} ${name} l ${group}; echo "\${COMPREPLY[*]}"`],
        { input: `${out}\n`, encoding: 'utf8' },
      )
      assert.deepStrictEqual([stderr, stdout], ['', 'list\n'])
    })
  })

  describe('the reference page', () => {
    it('matches the commands; otherwise run npm run generate', async () => {
      assert.strictEqual(readFileSync(page.file, 'utf8'), await Effect.runPromise(page.text))
    })
  })
}
