#!/usr/bin/env node
/** `hubctl` on the PATH: runs `main.ts` with the pinned version of Node. */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const app = join(dirname(fileURLToPath(import.meta.url)), '..')
const node = join(app, '..', '..', 'node_modules', 'node', 'bin', 'node')
const { status, error } = spawnSync(node, [join(app, 'src', 'main.ts'), ...process.argv.slice(2)], {
  stdio: 'inherit',
})
if (error !== undefined) console.error(`The pinned version of Node cannot be run: ${error.message}`)
process.exit(status ?? 1)
