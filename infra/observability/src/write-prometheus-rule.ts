/**
 * Writes the alert rules for the Prometheus operator to a file:
 *
 *   HUB_RUNBOOKS_URL=https://… node scripts/run.mjs infra/observability/src/write-prometheus-rule.ts <file>
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './metrics.ts'
import { InvalidRunbooksUrl, prometheusRule } from './prometheus-rule.ts'

const fail = (message: string): void => {
  console.error(message)
  process.exitCode = 1
}

const [file] = process.argv.slice(2)
if (file === undefined) fail('Name the file to write.')
else {
  try {
    const rules = readFileSync(join(ROOT, 'infra/observability/alerts/hub.yml'), 'utf8')
    writeFileSync(file, prometheusRule(rules, process.env['HUB_RUNBOOKS_URL']))
  } catch (error) {
    if (!(error instanceof InvalidRunbooksUrl)) throw error
    fail(error.message)
  }
}
