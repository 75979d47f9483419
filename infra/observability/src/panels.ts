/** Dashboards as data, and as what Grafana reads. */

interface Query {
  /** PromQL. `$__rate_interval` is Grafana's, four scrapes at least. */
  readonly expr: string
  /** `{{label}}` stands for a label's value. */
  readonly legend: string
  /** Why it may well have no series although the hub works; whatever has none and no reason is a fault. */
  readonly mayBeEmpty?: string
}

/** Grafana's names of units. */
type Unit = 'short' | 'reqps' | 's' | 'percentunit' | 'bytes' | 'ops' | 'dateTimeFromNow'

interface Panel {
  readonly title: string
  /** What it tells, and when to worry. */
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

/** A second per label value. */
export const perSecond = (metric: string, by: string, selector = ''): string =>
  by === ''
    ? `sum(rate(${metric}${selector}[$__rate_interval]))`
    : `sum by (${by}) (rate(${metric}${selector}[$__rate_interval]))`

/** A quantile of a histogram, over all instances. */
export const quantile = (q: number, metric: string, by = '', selector = ''): string =>
  `histogram_quantile(${q}, ${perSecond(`${metric}_bucket`, by === '' ? 'le' : `le, ${by}`, selector)})`

/** The usual three. */
export const quantiles = (metric: string, selector = ''): ReadonlyArray<Query> =>
  [0.5, 0.95, 0.99].map((q) => ({ expr: quantile(q, metric, '', selector), legend: `p${q * 100}` }))

const WIDTH = 12
const HEIGHT = 8
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const

const panelJson = ({ about, queries, title, unit }: Panel, index: number) => ({
  id: index + 1,
  type: 'timeseries',
  title,
  description: about,
  datasource: DATASOURCE,
  gridPos: { x: (index % 2) * WIDTH, y: Math.floor(index / 2) * HEIGHT, w: WIDTH, h: HEIGHT },
  fieldConfig: { defaults: { unit, min: 0, custom: { fillOpacity: 8, showPoints: 'never' } }, overrides: [] },
  options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
  targets: queries.map(({ expr, legend }, at) => ({
    refId: String.fromCodePoint(65 + at),
    datasource: DATASOURCE,
    expr,
    legendFormat: legend,
  })),
})

/** What Grafana's file provisioning takes. */
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
    list: [{ name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Prometheus', hide: 0 }],
  },
  links: [
    { title: 'Dashboards of the hub', type: 'dashboards', tags: ['sms-delivery-hub'], asDropdown: true },
  ],
  panels: panels.map(panelJson),
})
