import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { parse } from 'yaml'
import { ROOT } from './metrics.ts'
import { InvalidRunbooksUrl, prometheusRule } from './prometheus-rule.ts'

const ADDRESS = 'https://wiki.example.com/sms-hub/runbooks?view=$&'
const source = readFileSync(join(ROOT, 'infra/observability/alerts/hub.yml'), 'utf8')

interface Group {
  readonly rules: ReadonlyArray<{
    readonly alert: string
    readonly annotations: { readonly runbook_url: string }
  }>
}

describe('prometheusRule', () => {
  it('contains all rules, and an absolute link to the runbook of each alert', () => {
    const resource = parse(prometheusRule(source, ADDRESS)) as {
      readonly kind: string
      readonly spec: { readonly groups: ReadonlyArray<Group> }
    }
    assert.strictEqual(resource.kind, 'PrometheusRule')
    const { groups } = parse(source) as { readonly groups: ReadonlyArray<Group> }
    assert.deepStrictEqual(resource.spec, {
      groups: groups.map((group) => ({
        ...group,
        rules: group.rules.map((rule) => ({
          ...rule,
          annotations: { ...rule.annotations, runbook_url: `${ADDRESS}#${rule.alert.toLowerCase()}` },
        })),
      })),
    })
  })

  const invalid = [undefined, '', 'docs/runbooks.md', 'https://', 'ftp://wiki/runbooks', 'https://wiki/#top']
  it.each(invalid)('refuses the address %s', (url) => {
    assert.throws(() => prometheusRule(source, url), InvalidRunbooksUrl, /HUB_RUNBOOKS_URL/u)
  })
})
