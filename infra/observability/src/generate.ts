/** Writes and formats the generated files: the dashboards for Grafana, and `docs/metrics.md`. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { generated } from './generated.ts'
import { ROOT } from './metrics.ts'

const files = generated()
for (const [path, content] of files) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}
execFileSync(join(ROOT, 'node_modules/.bin/oxfmt'), [...files.keys()], { cwd: ROOT })
