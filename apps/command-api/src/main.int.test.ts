/** The process as its supervisor sees it. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { assert, describe, it } from 'vitest'

describe('a start without settings', () => {
  it('ends with exit code 1 and logs all missing settings in the usual log format', () => {
    const main = fileURLToPath(new URL('./main.ts', import.meta.url))
    const { status, stderr, stdout } = spawnSync(process.execPath, [main], { env: {}, encoding: 'utf8' })
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
