/** The alert rules as a resource of the Prometheus operator. */
import { parse, stringify } from 'yaml'

/** Prometheus replaces it by its external label: the address of the runbooks. */
export const RUNBOOKS = '{{ $externalLabels.hub_runbooks }}'

/** The address of the runbooks is missing or not absolute. */
export class InvalidRunbooksUrl extends Error {}

interface Rule {
  readonly annotations: { readonly runbook_url: string }
}
interface RuleFile {
  readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<Rule> }>
}

/** An absolute address without a fragment, and without characters that have a meaning in a template. */
const readRunbooksUrl = (url: string | undefined): string => {
  if (url !== undefined && /^https?:\/\/[^\s#{}]+$/u.test(url) && URL.canParse(url)) return url
  throw new InvalidRunbooksUrl(
    'HUB_RUNBOOKS_URL must be the address of docs/runbooks.md for your staff, without a fragment, such as https://wiki.example.com/sms-hub/runbooks.',
  )
}

/**
 * Returns the YAML of a `PrometheusRule` with the rules of `ruleFile` (YAML of Prometheus). Its alerts
 * link to `runbooksUrl` directly: the Prometheus of a cluster serves others too, so the hub needs no
 * external label of it. Throws `InvalidRunbooksUrl`.
 */
export const prometheusRule = (ruleFile: string, runbooksUrl: string | undefined): string => {
  const url = readRunbooksUrl(runbooksUrl)
  const { groups } = parse(ruleFile) as RuleFile
  const resource = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'hub', namespace: 'monitoring' },
    spec: {
      groups: groups.map((group) => ({
        ...group,
        rules: group.rules.map((rule) => ({
          ...rule,
          annotations: {
            ...rule.annotations,
            runbook_url: rule.annotations.runbook_url.replace(RUNBOOKS, () => url),
          },
        })),
      })),
    },
  }
  // Long queries stay in one line.
  return stringify(resource, { lineWidth: 0 })
}
