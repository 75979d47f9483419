/**
 * Makes the pictures of docs/console.md: runs the journeys of the console, and copies their screenshots.
 *
 *   node scripts/run.mjs test/console/screenshots.ts
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { SCREENSHOTS } from './support.ts'

const PAGE = join(ROOT, 'docs/console.md')
const PICTURES = join(ROOT, 'docs/images/console')

const run = spawnSync(process.execPath, [join(ROOT, 'scripts/test.ts'), 'e2e', 'test/console'], {
  cwd: ROOT,
  stdio: 'inherit',
})
if (run.status !== 0) process.exit(run.status ?? 1)

mkdirSync(PICTURES, { recursive: true })
const names = [...readFileSync(PAGE, 'utf8').matchAll(/\(images\/console\/([a-z-]+)\.png\)/gu)].map(
  ([, name]) => name ?? '',
)
for (const name of names) copyFileSync(join(SCREENSHOTS, `${name}.png`), join(PICTURES, `${name}.png`))
console.log(`${names.length} pictures are in ${PICTURES}`)
