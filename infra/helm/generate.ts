/** Writes the generated files of the chart. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { generated } from './generated.ts'

for (const [path, content] of generated()) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}
