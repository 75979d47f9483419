/** Compares dashboards, alerts, runbooks and `docs/metrics.md` with the metrics of the code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { parse } from 'yaml'
import { dashboards } from './dashboards.ts'
import { generated } from './generated.ts'
import { currentName, definedMetrics, metricsIn, ROOT, seriesOf, strayLabels } from './metrics.ts'
import { inScope } from './panels.ts'
import { RUNBOOKS } from './prometheus-rule.ts'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly runbook_url: string }
}
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const rules = (
  parse(read('infra/observability/alerts/hub.yml')) as {
    readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<Rule> }>
  }
).groups.flatMap((group) => group.rules)
const defined = definedMetrics()
const known = new Set(defined.flatMap((one) => [one.name, ...seriesOf(one)]))
const labels = new Map(
  defined.flatMap((one) => seriesOf(one).map((name) => [name, new Set(Object.keys(one.labels))] as const)),
)
const unknown = (query: string) => metricsIn(query).filter((name) => !known.has(name))

/** The unknown labels that a query selects by, as `metric{label}`. */
const unknownSelectors = (query: string): ReadonlyArray<string> =>
  [...query.matchAll(/\b(?<metric>(?:hub|process|nodejs)_\w+)\{(?<selector>[^}]*)\}/gu)].flatMap(
    ({ groups }) =>
      [...(groups?.['selector'] ?? '').matchAll(/(?<label>\w+)\s*(?:=~|!~|!=|=)/gu)]
        .map((found) => found.groups?.['label'] ?? '')
        .filter((label) => !['job', 'instance', 'le'].includes(label))
        .filter((label) => labels.get(groups?.['metric'] ?? '')?.has(label) !== true)
        .map((label) => `${groups?.['metric']}{${label}}`),
  )

/** Ignores the spaces and lines of tables, which the formatter decides. */
const withoutLayout = (text: string): string => text.replaceAll(/[\s-]+/gu, ' ')

describe('metrics', () => {
  it('have a name with their unit, a help text, and described labels', () => {
    assert.isAbove(defined.length, 60)
    assert.deepStrictEqual(strayLabels(defined), [])
    for (const { help, name, type } of defined) {
      assert.match(name, /^(?:hub|process|nodejs)_[a-z][a-z0-9_]*$/u)
      assert.match(help, /^[A-Z0-9].{8,}\.$/u, name)
      assert.strictEqual(name.endsWith('_total'), type === 'counter', name)
      if (type === 'histogram') assert.match(name, /_(?:seconds|bytes|messages|records)$/u)
    }
    const names = defined.map(({ name }) => name)
    assert.deepStrictEqual(
      names.filter((name, i) => names.indexOf(name) !== i),
      [],
      'defined twice',
    )
  })

  it('are each used by a dashboard or an alert', () => {
    const shown = [
      ...dashboards.flatMap(({ panels }) => panels.flatMap(({ queries }) => queries.map(({ expr }) => expr))),
      ...rules.map(({ expr }) => expr),
    ]
    const used = new Set(shown.flatMap(metricsIn))
    const isUsed = (one: (typeof defined)[number]) =>
      [one.name, ...seriesOf(one)].some((name) => used.has(name))
    assert.deepStrictEqual(
      defined.filter((one) => isUsed(one) !== (currentName(one) === null)).map(({ name }) => name),
      [],
      'unused, or used by its old name',
    )
  })

  it('have old names only beside the current ones', () => {
    const renamed = defined.flatMap((one) => {
      const name = currentName(one)
      return name === null ? [] : [[one, defined.find((other) => other.name === name)] as const]
    })
    assert.isNotEmpty(renamed)
    const notes = read('docs/release-notes.md')
    for (const [old, current] of renamed) {
      assert.strictEqual(old.type, current?.type, old.name)
      assert.include(notes, `\`${old.name}\``)
    }
  })
})

describe('generated files', () => {
  for (const [path, content] of generated()) {
    it(`${path.slice(ROOT.length + 1)} equals the output of npm run generate`, () => {
      const stored = readFileSync(path, 'utf8')
      if (path.endsWith('.json')) assert.deepStrictEqual(JSON.parse(stored), JSON.parse(content))
      else assert.strictEqual(withoutLayout(stored), withoutLayout(content))
    })
  }
})

describe('dashboards', () => {
  for (const { panels, title } of dashboards) {
    it(`${title} names metrics and labels that exist`, () => {
      for (const panel of panels) {
        assert.isNotEmpty(panel.queries, panel.title)
        for (const { expr } of panel.queries) {
          assert.deepStrictEqual([...unknown(expr), ...unknownSelectors(expr)], [], panel.title)
        }
      }
    })
  }
})

describe('the dashboards of Grafana', () => {
  it.each([
    ['sum(up)', 'sum(up{cluster=~"$cluster",namespace=~"$namespace"})'],
    [
      'max by (job) (hub_smpp_binds_up{role="receiver"}) / sum(rate(process_cpu_seconds_total[1m]))',
      'max by (job) (hub_smpp_binds_up{role="receiver",cluster=~"$cluster",namespace=~"$namespace"}) / sum(rate(process_cpu_seconds_total{cluster=~"$cluster",namespace=~"$namespace"}[1m]))',
    ],
  ])('show the selected clusters and namespaces: %s', (expr, restricted) => {
    assert.strictEqual(inScope(expr), restricted)
  })
})

describe('alerts', () => {
  const runbooks = read('docs/runbooks.md')
  const tests = read('infra/observability/tests/alerts.yml')

  it('name metrics and labels that exist', () => {
    for (const { alert, expr } of rules) {
      assert.deepStrictEqual([...unknown(expr), ...unknownSelectors(expr)], [], alert)
    }
  })

  it('each have a runbook, and each runbook has its alert', () => {
    const sections = [...runbooks.matchAll(/^## (?<name>.+)$/gmu)].map(({ groups }) => groups?.['name'] ?? '')
    assert.deepStrictEqual(sections.toSorted(), rules.map(({ alert }) => alert).toSorted())
    for (const { alert, annotations, labels: its } of rules) {
      assert.strictEqual(annotations.runbook_url, `${RUNBOOKS}#${alert.toLowerCase()}`)
      const section = runbooks.split(`## ${alert}\n`, 2)[1]?.split('\n## ', 1)[0] ?? ''
      assert.include(section, `_${its.severity}._`, alert)
      assert.include(section, '**Look**', alert)
      assert.include(section, '**Do**', alert)
    }
  })

  it('each have a test that fires and a test that stays quiet', () => {
    const names = (parse(tests) as { readonly tests: ReadonlyArray<{ readonly name: string }> }).tests.map(
      ({ name }) => name,
    )
    assert.deepStrictEqual(
      names.toSorted(),
      rules.flatMap(({ alert }) => [`${alert} fires`, `${alert} stays quiet`]).toSorted(),
    )
  })
})
