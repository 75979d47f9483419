/** The content of each generated file, by path. */
import { join } from 'node:path'
import { dashboards } from './dashboards.ts'
import { definedMetrics, metricsPage, ROOT } from './metrics.ts'
import { grafanaJson } from './panels.ts'

export const generated = (): ReadonlyMap<string, string> =>
  new Map([
    [join(ROOT, 'docs/metrics.md'), metricsPage(definedMetrics())],
    ...dashboards.map((one): readonly [string, string] => [
      join(ROOT, `infra/observability/dashboards/${one.uid.replace('hub-', '')}.json`),
      `${JSON.stringify(grafanaJson(one), null, 2)}\n`,
    ]),
  ])
