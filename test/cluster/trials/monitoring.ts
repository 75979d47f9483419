/** Prometheus finds all apps, and has all rules. */
import { ROOT } from '@hub/local-stack'
import { join } from 'node:path'
import { eventually } from '@hub/testkit'
import { APPS } from '../deploy.ts'
import { askPrometheus } from '../prometheus.ts'
import { run } from '../../support/shell.ts'
import type { Trial } from './trial.ts'

const SEEN = { withinMs: 180_000, everyMs: 3000 } as const

export const monitoring: Trial = async ({ cluster, pods }) => {
  const { dir, kubectl } = cluster
  const file = join(dir, 'hub-alerts.yaml')
  await run(
    process.execPath,
    [join(ROOT, 'scripts/run.mjs'), 'infra/observability/src/write-prometheus-rule.ts', file],
    {
      cwd: ROOT,
      env: { HUB_RUNBOOKS_URL: 'https://wiki.example.com/sms-hub/runbooks' },
    },
  )
  await kubectl.run(['apply', '--filename', file])
  const ask = (path: string) => askPrometheus(kubectl, path)
  const expected = (await Promise.all(APPS.map(async (app) => (await pods(app)).length))).reduce(
    (sum, one) => sum + one,
    0,
  )
  const up = await eventually(async () => {
    const { activeTargets } = await ask('/api/v1/targets?state=active')
    const ours = activeTargets.filter(({ labels }: any) => labels.namespace === 'sms-hub')
    const healthy = ours.filter(({ health }: any) => health === 'up')
    if (healthy.length < expected || ours.length !== healthy.length)
      throw new Error(`${healthy.length} of ${ours.length} targets are up, and there are ${expected} pods`)
    return healthy.length
  }, SEEN)
  const rules = await eventually(async () => {
    const { groups } = await ask('/api/v1/rules')
    const all = groups.flatMap(({ rules: of }: any) => of)
    if (all.length === 0) throw new Error('Prometheus has no rules')
    return all
  }, SEEN)
  const broken = rules
    .filter(({ health }: any) => health === 'err')
    .map(({ lastError, name }: any) => `${name}: ${lastError}`)
  const firing = rules.filter(({ state }: any) => state === 'firing').map(({ name }: any) => name)
  return { figures: { targets: up, rules: rules.length, firing }, faults: broken }
}
