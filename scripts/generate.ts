/**
 * `npm run generate`: writes all generated files, in the order of their dependencies, and formats
 * the pages. Each generator can also run alone, through `scripts/run.mjs`.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

const execute = (command: string, args: ReadonlyArray<string>): void => {
  execFileSync(join(ROOT, command), args, { cwd: ROOT, stdio: 'inherit' })
}
const generate = (program: string): void => {
  console.log(`generate: ${program}`)
  execute('node_modules/node/bin/node', [program])
}

generate('packages/contract/scripts/generate.ts')
generate('apps/operations-api/scripts/generate.ts')
// Installs packages, but only after a change of a description.
generate('scripts/openapi-types.ts')
generate('scripts/python-types.ts')
generate('packages/client/scripts/conformance.ts')
generate('packages/kafka/scripts/analytics.ts')
generate('tools/asyncapi/generate.ts')
generate('packages/config/scripts/generate.ts')
generate('apps/hubctl/scripts/generate.ts')
generate('apps/cli/scripts/generate.ts')
generate('infra/observability/src/generate.ts')
generate('infra/helm/generate.ts')
generate('test/simulation/mutations/page.ts')
generate('test/chaos/crash-matrix/page.ts')
execute('node_modules/.bin/oxfmt', ['docs', 'test/chaos/crash-matrix'])
