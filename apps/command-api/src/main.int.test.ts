/** The process itself, as a supervisor sees it. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { assert, describe, it } from 'vitest'

describe('a start without settings', () => {
  it('ends with 1 and says why in the form of every other line of the log', () => {
    const main = fileURLToPath(new URL('./main.ts', import.meta.url))
    const { status, stderr, stdout } = spawnSync(process.execPath, [main], { env: {}, encoding: 'utf8' })
    assert.strictEqual(status, 1)
    assert.strictEqual(stderr, '')
    const lines = stdout
      .trim()
      .split('\n')
      .map(
        (line) =>
          JSON.parse(line) as { readonly app: string; readonly level: string; readonly cause?: unknown },
      )
    assert.deepStrictEqual(
      lines.map(({ app, level }) => [app, level]),
      [['command-api', 'fatal']],
    )
    for (const name of ['HUB_PORT', 'HUB_DATABASE_URL']) assert.include(JSON.stringify(lines[0]?.cause), name)
  })
})
