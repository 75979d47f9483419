#!/usr/bin/env node
/** `npx hub` inside the repository: runs `main.ts` with the pinned version of Node. */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const app = join(dirname(fileURLToPath(import.meta.url)), '..')
const node = join(app, '..', '..', 'node_modules', 'node', 'bin', 'node')
const child = spawn(node, [join(app, 'src', 'main.ts'), ...process.argv.slice(2)], { stdio: 'inherit' })
// The program ends by itself, and this process follows with its exit code.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.once('error', (error) => {
  console.error(`The pinned version of Node cannot be run: ${error.message}`)
  process.exitCode = 1
})
// A terminal sends Ctrl-C to both processes. Then the signal from here can come when the program has no handler
// any more, and end it.
child.once('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
