/** Fails if a description of an API has a fault: `node scripts/run.mjs tools/description-lint/main.ts`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { faultsOf } from './lint.ts'

const ROOT = join(import.meta.dirname, '../..')

for (const folder of ['packages/contract', 'apps/operations-api']) {
  const file = `${folder}/openapi.json`
  const faults = await faultsOf(readFileSync(join(ROOT, file), 'utf8'))
  console.log(`${file}: ${faults.length} fault(s)`)
  for (const fault of faults) console.error(`  ${fault}`)
  if (faults.length > 0) process.exitCode = 1
}
