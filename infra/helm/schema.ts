/** The JSON schema of the values of the chart. It refuses each value that the chart does not have. */
import { ALL_APPS, type AnyApp, catalogue } from '@hub/config'

type Schema = Readonly<Record<string, unknown>>

const text: Schema = { type: 'string' }
const name: Schema = { type: 'string', minLength: 1 }
const flag: Schema = { type: 'boolean' }
const atLeast = (minimum: number): Schema => ({ type: 'integer', minimum })
const port: Schema = { type: 'integer', minimum: 1, maximum: 65_535 }
const texts: Schema = { type: 'object', additionalProperties: text }
/** The API server checks these objects. */
const ofKubernetes: Schema = { type: 'object' }
const list: Schema = { type: 'array', items: ofKubernetes }

const closed = (
  properties: Readonly<Record<string, Schema>>,
  required: ReadonlyArray<string> = [],
): Schema => ({
  type: 'object',
  additionalProperties: false,
  properties,
  ...(required.length > 0 ? { required } : {}),
})

/** All of these have a default, which a user must not remove with `null`. */
const complete = (properties: Readonly<Record<string, Schema>>): Schema =>
  closed(properties, Object.keys(properties))

const each = <Key extends string>(keys: ReadonlyArray<Key>, schemaOf: (key: Key) => Schema) =>
  Object.fromEntries(keys.map((key) => [key, schemaOf(key)]))

/** The chart sets these itself, or the image does. */
export const FIXED: ReadonlyArray<string> = [
  'HUB_PORT',
  'HUB_ADMIN_PORT',
  'HUB_LISTEN_HOST',
  'HUB_DATA_DIR',
  'HUB_SCHEMA_REGISTRY_URL',
  'HUB_OPERATOR_CALLBACK_PORT',
  'HUB_OPERATOR_CALLBACK_HOST',
  'HUB_OPERATIONS_PORT',
  'HUB_CONSOLE_DIR',
]

const inDeployments = catalogue.filter(
  ({ group, name: setting }) =>
    group !== 'tests' && !setting.startsWith('HUBCTL_') && !FIXED.includes(setting),
)
const isOpen = ({ kind }: (typeof catalogue)[number]): boolean => !kind.secret

/** The secret settings that the chart gives to pods. */
export const SECRETS: ReadonlyArray<string> = inDeployments
  .filter((setting) => !isOpen(setting) && ALL_APPS.some((app) => setting.readBy.includes(app)))
  .map(({ name: setting }) => setting)
  // A sign-in without the identity provider. What few hubs have is set with `apps.<app>.env`.
  .filter(
    (setting) =>
      !['HUB_OPERATIONS_LOCAL_SECRET', 'HUB_WEBHOOK_PROXY_URL', 'OTEL_EXPORTER_OTLP_HEADERS'].includes(
        setting,
      ),
  )

const settingSchema = ({
  doc,
  kind,
  name: setting,
}: (typeof catalogue)[number]): readonly [string, Schema] => [
  setting,
  {
    type: 'string',
    description: `${doc} Expected: ${kind.expected}.`,
    ...(kind.type === 'integer' || kind.type === 'port' ? { pattern: '^[0-9]*$' } : {}),
    ...(kind.type === 'url' ? { pattern: `^((${(kind.permitted ?? ['[a-z]+']).join('|')})://.+)?$` } : {}),
    // An empty text means that the setting is not set.
    ...(kind.type === 'choice' && kind.permitted !== undefined ? { enum: ['', ...kind.permitted] } : {}),
  },
]

/** The settings that all apps get. Those of operations-api alone belong to that app. */
const shared = Object.fromEntries(
  inDeployments
    .filter(isOpen)
    .filter(({ readBy }) => ALL_APPS.some((app) => app !== 'operations-api' && readBy.includes(app)))
    .map(settingSchema),
)

const settingsOf = (app: AnyApp): Schema =>
  closed(
    Object.fromEntries(
      inDeployments
        .filter(isOpen)
        .filter(({ readBy }) => readBy.includes(app))
        .map(settingSchema),
    ),
    // Without them operations-api does not start, and the console has no address.
    app === 'operations-api'
      ? ['HUB_OPERATIONS_URL', 'HUB_OIDC_ISSUER', 'HUB_OIDC_CLIENT_ID', 'HUB_OIDC_ROLES']
      : [],
  )

const amount: Schema = { type: ['string', 'number'] }
const amounts = closed({ cpu: amount, memory: amount, 'ephemeral-storage': amount })
const resources = closed({ requests: amounts, limits: amounts })

const pods = {
  annotations: texts,
  labels: texts,
  env: list,
  volumes: list,
  volumeMounts: list,
  nodeSelector: texts,
  tolerations: list,
  affinity: ofKubernetes,
  priorityClassName: text,
  topologySpreadConstraints: list,
  securityContext: ofKubernetes,
}

const LAG: Readonly<Partial<Record<AnyApp, ReadonlyArray<string>>>> = {
  dispatcher: ['hub.accepted.otp.v1', 'hub.accepted.service.v1'],
  projector: ['hub.accepted.service.v1', 'hub.messages.v1'],
  'webhook-fanout': ['hub.webhooks.v1'],
}

const instances = (app: AnyApp): Readonly<Record<string, Schema>> => {
  const bounds = { min: atLeast(1), max: atLeast(1), fallback: atLeast(1) }
  const lag = LAG[app]
  if (app === 'operations-api') return { replicas: atLeast(0) }
  return {
    scaling: complete(
      lag === undefined
        ? { ...bounds, requestsPerSecond: atLeast(1) }
        : { ...bounds, lag: closed(each(lag, () => atLeast(1))) },
    ),
  }
}

const ofAnyWorkload = { ...pods, resources, serviceAccountAnnotations: texts }

const probe = closed(
  each(
    ['initialDelaySeconds', 'periodSeconds', 'timeoutSeconds', 'failureThreshold', 'successThreshold'],
    () => atLeast(0),
  ),
)

const exposed = complete({
  host: text,
  ingress: complete({ enabled: flag, className: text, annotations: texts, tlsSecret: text }),
  httpRoute: complete({ enabled: flag, parentRefs: list, annotations: texts }),
  certificate: complete({ enabled: flag, issuerRef: closed({ name: text, kind: text, group: text }) }),
})

const to = complete({ to: list, port })
const from = complete({ from: list })

const values: Readonly<Record<string, Schema>> = {
  image: complete({
    registry: text,
    repository: name,
    tag: text,
    digest: { type: 'string', pattern: '^(sha256:[0-9a-f]{64})?$' },
    pullPolicy: { enum: ['', 'Always', 'IfNotPresent', 'Never'] },
    pullSecrets: { type: 'array', items: closed({ name }, ['name']) },
  }),
  fullnameOverride: { type: 'string', pattern: '^([a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?)?$' },
  checkCluster: flag,
  settings: closed(
    { ...shared, HUB_BASE_URL: { ...(shared['HUB_BASE_URL'] as Schema), pattern: '^https://.+$' } },
    ['HUB_BASE_URL', 'HUB_KAFKA_BROKERS', 'HUB_PARTITIONS'],
  ),
  secrets: complete({
    hub: name,
    operator: name,
    from: closed(each(SECRETS, () => complete({ name, key: name }))),
    files: { type: 'array', items: { enum: [...SECRETS] }, uniqueItems: true },
  }),
  externalSecrets: complete({
    enabled: flag,
    store: complete({ name: text, kind: { enum: ['SecretStore', 'ClusterSecretStore'] } }),
    refreshInterval: name,
    hub: text,
    operator: text,
  }),
  ca: complete({ configMap: text, secret: text, key: name }),
  pods: complete(pods),
  probes: complete({ startup: probe, readiness: probe, liveness: probe }),
  apps: closed(
    {
      ...each(ALL_APPS, (app) =>
        closed({ ...ofAnyWorkload, ...instances(app), settings: settingsOf(app) }, [
          'resources',
          ...(app === 'operations-api' ? ['replicas', 'settings'] : ['scaling']),
        ]),
      ),
      hubctl: closed(ofAnyWorkload, ['resources']),
    },
    [...ALL_APPS, 'hubctl'],
  ),
  keda: complete({ enabled: flag, prometheus: name }),
  prometheus: complete({
    serviceMonitors: complete({ enabled: flag, interval: name, labels: texts }),
    rules: complete({ enabled: flag, runbooksUrl: text, labels: texts }),
  }),
  podDisruptionBudgets: complete({
    enabled: flag,
    maxUnavailable: { anyOf: [atLeast(1), { type: 'string', pattern: '^[0-9]+%$' }] },
    unhealthyPodEvictionPolicy: { enum: ['AlwaysAllow', 'IfHealthyBudget'] },
  }),
  expose: complete(each(['clients', 'staff', 'callbacks'], () => exposed)),
  networkPolicies: complete({
    enabled: flag,
    dns: complete({ to: list }),
    ...each(
      [
        'postgresql',
        'kafka',
        'tokenEndpoint',
        'redis',
        'sentinels',
        'traces',
        'transit',
        'operator',
        'identityProvider',
      ],
      () => to,
    ),
    ...each(['metrics', 'clients', 'staff'], () => from),
  }),
}

export const valuesSchema: Schema = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  // Helm adds `global` to the values of a chart that another one contains.
  ...closed({ global: ofKubernetes, ...values }, Object.keys(values)),
}
