/** The generated files of the chart, by path: the schema of its values, the page of its values, and the alert rules. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { valuesPage } from './page.ts'
import { valuesSchema } from './schema.ts'

const ROOT = join(import.meta.dirname, '../..')
export const CHART = join(import.meta.dirname, 'sms-delivery-hub')

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

export const generated = (): ReadonlyMap<string, string> =>
  new Map([
    [join(CHART, 'values.schema.json'), `${JSON.stringify(valuesSchema, null, 2)}\n`],
    // A chart contains no files from outside of its folder.
    [join(CHART, 'files/alerts.yml'), read('infra/observability/alerts/hub.yml')],
    [join(ROOT, 'docs/chart.md'), valuesPage(read('infra/helm/sms-delivery-hub/values.yaml'))],
  ])
