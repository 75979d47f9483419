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
  ({ group, name: setting }) => group !== 'tests' && setting.startsWith('HUB_') && !FIXED.includes(setting),
)
const isOpen = ({ kind }: (typeof catalogue)[number]): boolean => !kind.secret

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
    ...(kind.type === 'url' ? { pattern: '^([a-z]+://.+)?$' } : {}),
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
    scaling: closed(
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

const exposed = closed({
  host: text,
  ingress: closed({ enabled: flag, className: text, annotations: texts, tlsSecret: text }),
  httpRoute: closed({ enabled: flag, parentRefs: list, annotations: texts }),
  certificate: closed({ enabled: flag, issuerRef: closed({ name: text, kind: text, group: text }) }),
})

const to = closed({ to: list, port })
const from = closed({ from: list })

export const valuesSchema: Schema = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  ...closed(
    {
      // Helm adds it to the values of a chart that another one contains.
      global: ofKubernetes,
      image: closed({
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
      secrets: closed({
        hub: name,
        operator: name,
        from: closed(
          Object.fromEntries(
            inDeployments
              .filter(
                (setting) => !isOpen(setting) && setting.readBy.some((reader) => reader !== 'npm start'),
              )
              .map(({ name: setting }) => [setting, closed({ name, key: name }, ['name', 'key'])]),
          ),
        ),
      }),
      externalSecrets: closed({
        enabled: flag,
        store: closed({ name: text, kind: { enum: ['SecretStore', 'ClusterSecretStore'] } }),
        refreshInterval: name,
        hub: text,
        operator: text,
      }),
      ca: closed({ configMap: text, secret: text, key: name }),
      pods: closed(pods),
      probes: closed({ startup: probe, readiness: probe, liveness: probe }),
      apps: closed(
        {
          ...each(ALL_APPS, (app) =>
            closed(
              { ...ofAnyWorkload, ...instances(app), settings: settingsOf(app) },
              app === 'operations-api' ? ['settings'] : [],
            ),
          ),
          hubctl: closed(ofAnyWorkload),
        },
        [...ALL_APPS, 'hubctl'],
      ),
      keda: closed({ enabled: flag, prometheus: name }),
      prometheus: closed({
        serviceMonitors: closed({ enabled: flag, interval: name, labels: texts }),
        rules: closed({ enabled: flag, runbooksUrl: text, labels: texts }),
      }),
      podDisruptionBudgets: closed({
        enabled: flag,
        maxUnavailable: { anyOf: [atLeast(1), { type: 'string', pattern: '^[0-9]+%$' }] },
        unhealthyPodEvictionPolicy: { enum: ['AlwaysAllow', 'IfHealthyBudget'] },
      }),
      expose: closed(each(['clients', 'staff', 'callbacks'], () => exposed)),
      networkPolicies: closed({
        enabled: flag,
        dns: closed({ to: list }),
        ...each(['postgresql', 'kafka', 'redis', 'traces', 'operator', 'identityProvider'], () => to),
        ...each(['metrics', 'clients', 'staff'], () => from),
      }),
    },
    ['settings'],
  ),
}
