/** The types of a dashboard, functions for PromQL queries, and the JSON that Grafana reads. */

interface Query {
  /** PromQL. Grafana replaces `$__rate_interval` by at least four scrape intervals. */
  readonly expr: string
  /** Grafana replaces `{{label}}` by the value of the label. */
  readonly legend: string
  /**
   * Why a working hub may have no series for the query. Without a reason, a test requires series.
   */
  readonly mayBeEmpty?: string
}

export const query = (expr: string, legend: string, mayBeEmpty?: string): Query =>
  mayBeEmpty === undefined ? { expr, legend } : { expr, legend, mayBeEmpty }

/** Unit ids of Grafana. */
type Unit = 'short' | 'reqps' | 's' | 'percentunit' | 'bytes' | 'ops'

interface Panel {
  readonly title: string
  /** What the panel shows, and which values need attention. */
  readonly about: string
  readonly unit: Unit
  readonly queries: ReadonlyArray<Query>
}

export interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly about: string
  readonly panels: ReadonlyArray<Panel>
}

/** The rate per second of a counter over all instances, by label. */
export const perSecond = (metric: string, by: string, selector = ''): string =>
  by === ''
    ? `sum(rate(${metric}${selector}[$__rate_interval]))`
    : `sum by (${by}) (rate(${metric}${selector}[$__rate_interval]))`

/** The increase of a counter in the scrape window, over all instances. */
export const increase = (metric: string): string => `sum(increase(${metric}[$__rate_interval]))`

const labelLegend = (by: string): string => by.replaceAll(/(\w+),?/gu, '{{$1}}')

/** The rate per second of a counter. Its legend shows the labels. */
export const rate = (metric: string, by: string, selector = ''): Query => ({
  expr: perSecond(metric, by, selector),
  legend: labelLegend(by),
})

/** Only the series above 0, for a counter with many label values. */
export const occurring = ({ expr, legend }: Query, mayBeEmpty?: string): Query =>
  query(`${expr} > 0`, legend, mayBeEmpty)

/** A gauge over all instances, by label. Its legend shows the labels. */
export const byLabel = (aggregate: 'max' | 'sum', by: string, gauge: string): Query => ({
  expr: `${aggregate} by (${by}) (${gauge})`,
  legend: labelLegend(by),
})

/** A quantile of a histogram, over all instances. */
export const quantile = (q: number, metric: string, selector = ''): string =>
  `histogram_quantile(${q}, ${perSecond(`${metric}_bucket`, 'le', selector)})`

/** The median, p95 and p99 of a histogram. */
export const quantiles = (metric: string, selector = ''): ReadonlyArray<Query> =>
  [0.5, 0.95, 0.99].map((q) => ({ expr: quantile(q, metric, selector), legend: `p${q * 100}` }))

const WIDTH = 12
const HEIGHT = 8
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const

/** Labels that a Prometheus of several clusters has. Without them, the value for all selects every series. */
const SCOPE = ['cluster', 'namespace'] as const
const SCOPE_SELECTOR = SCOPE.map((label) => `${label}=~"$${label}"`).join(',')

/** Restricts each metric of a query to the clusters and namespaces that the dashboard shows. */
export const inScope = (expr: string): string =>
  expr.replaceAll(
    /\b(?<metric>(?:hub|process|nodejs)_\w+|up)\b(?:\{(?<selector>[^}]*)\})?/gu,
    (_match, metric: string, selector: string | undefined) =>
      `${metric}{${selector === undefined ? '' : `${selector},`}${SCOPE_SELECTOR}}`,
  )

const scopeVariable = (label: (typeof SCOPE)[number]) => {
  const values = `label_values(up{job="command-api"${label === 'cluster' ? '' : ',cluster=~"$cluster"'}}, ${label})`
  return {
    name: label,
    type: 'query',
    label: label === 'cluster' ? 'Cluster' : 'Namespace',
    datasource: DATASOURCE,
    query: { query: values, refId: label },
    // Also after a change of the time range.
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { text: ['All'], value: ['$__all'] },
    hide: 0,
  }
}

const panelJson = ({ about, queries, title, unit }: Panel, index: number) => ({
  id: index + 1,
  type: 'timeseries',
  title,
  description: about,
  datasource: DATASOURCE,
  gridPos: { x: (index % 2) * WIDTH, y: Math.floor(index / 2) * HEIGHT, w: WIDTH, h: HEIGHT },
  fieldConfig: { defaults: { unit, min: 0, custom: { fillOpacity: 8, showPoints: 'never' } }, overrides: [] },
  options: {
    legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
    tooltip: { mode: 'multi', sort: 'desc' },
  },
  targets: queries.map(({ expr, legend }, at) => ({
    refId: String.fromCodePoint(65 + at),
    datasource: DATASOURCE,
    expr: inScope(expr),
    legendFormat: legend,
  })),
})

/** The JSON for the file provisioning of Grafana. */
export const grafanaJson = ({ about, panels, title, uid }: Dashboard): object => ({
  uid,
  title,
  description: about,
  tags: ['sms-delivery-hub'],
  timezone: 'utc',
  schemaVersion: 39,
  editable: false,
  refresh: '30s',
  time: { from: 'now-3h', to: 'now' },
  templating: {
    list: [
      { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Prometheus', hide: 0 },
      ...SCOPE.map(scopeVariable),
    ],
  },
  links: [
    {
      title: 'Dashboards of the hub',
      type: 'dashboards',
      tags: ['sms-delivery-hub'],
      asDropdown: true,
      // The other dashboard shows the same clusters and the same time.
      includeVars: true,
      keepTime: true,
      targetBlank: false,
      icon: 'external link',
      tooltip: '',
    },
  ],
  panels: panels.map(panelJson),
})
