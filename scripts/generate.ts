/**
 * `npm run generate`: writes all generated files, in the order of their dependencies, and formats
 * the pages. Each generator can also run alone, through `scripts/run.mjs`.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

const execute = (command: string, args: ReadonlyArray<string>): void => {
  execFileSync(join(ROOT, command), args, { cwd: ROOT, stdio: 'inherit' })
}
const generate = (program: string): void => {
  console.log(`generate: ${program}`)
  execute('node_modules/node/bin/node', [program])
}

/** The types of the client contain the hash of the description that they were made from. */
const isClientCurrent = (): boolean => {
  const description = readFileSync(join(ROOT, 'packages/contract/openapi.json'))
  const hash = createHash('sha256').update(description).digest('hex')
  return readFileSync(join(ROOT, 'packages/client/src/contract.ts'), 'utf8').includes(hash)
}

generate('packages/contract/scripts/generate.ts')
// This generator installs packages, so it runs only after a change.
if (!isClientCurrent()) generate('packages/client/scripts/generate.ts')
generate('apps/operations-api/scripts/generate.ts')
generate('packages/client/scripts/conformance.ts')
generate('packages/kafka/scripts/analytics.ts')
generate('packages/config/scripts/generate.ts')
generate('apps/hubctl/scripts/generate.ts')
generate('apps/cli/scripts/generate.ts')
generate('infra/observability/src/generate.ts')
generate('test/simulation/mutations/page.ts')
generate('test/chaos/crash-matrix/page.ts')
execute('node_modules/.bin/oxfmt', ['docs', 'test/chaos/crash-matrix'])
