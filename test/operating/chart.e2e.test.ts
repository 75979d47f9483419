/**
 * Renders the Helm chart with the packages of Helm, compares it object by object with what kustomize renders,
 * validates it against published schemas, and shows how it refuses mistakes.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { prometheusRule } from '../../infra/observability/src/prometheus-rule.ts'
import { type Found, goFiles, orSkip } from '../support/external-tools.ts'
import { COMPILED_WITHIN_MS, type Output, type Run, runChart, type Values } from './chart/run-chart.ts'
import { kubernetesFindings, workloadFindings } from './manifests/check-manifests.ts'
import { type Doc, documentsIn, readCode, textOf, workloadsOf } from './manifests/parse.ts'
import { kubectlMissing, kustomize, onceOnly, validate } from './manifests/tools.ts'

const folder = mkdtempSync(join(tmpdir(), 'hub-chart-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const valuesIn = (path: string): Values => parse(textOf(`infra/helm/${path}`)) as Values
const required = valuesIn('sms-delivery-hub/ci/required-values.yaml')
const sizes = {
  base: [],
  small: [valuesIn('sms-delivery-hub/values-small.yaml')],
  large: [valuesIn('sms-delivery-hub/values-large.yaml')],
}
type Size = keyof typeof sizes

/** An overlay of a team, and the same as values. */
const TEAM = {
  overlay: (resources: string): string => `
resources: [${resources}]
images: [{ name: sms-delivery-hub, newName: registry.team.test/sms/hub, newTag: 0.5.0 }]
configMapGenerator:
  - name: hub-settings
    namespace: sms-hub
    behavior: merge
    literals:
      - HUB_BASE_URL=https://sms.team.test
      - HUB_TRUSTED_PROXIES=192.0.2.10,192.0.2.11
      - HUB_OPERATOR_SMPP_URL=smpps://team@smpp.operator.test:3550
      - HUB_OTLP_URL=http://otel-collector.monitoring:4318
patches:
  - target: { kind: NetworkPolicy, name: dispatcher }
    patch: |
      - { op: replace, path: /spec/egress/0/to/0/ipBlock/cidr, value: 198.51.100.0/28 }
  - target: { kind: NetworkPolicy, name: hubctl }
    patch: |
      - { op: replace, path: /spec/egress/1/to/0/ipBlock/cidr, value: 198.51.100.0/28 }
  # From docs/deploying.md, "Redis Sentinel and Redis Cluster".
  - target: { kind: NetworkPolicy, name: command-api|dispatcher|operations-api|hubctl }
    patch: |
      - op: add
        path: /spec/egress/-
        value:
          to: [{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: hub-data } } }]
          ports: [{ port: 26379 }]
  - target: { kind: ScaledObject, name: dispatcher }
    patch: |
      - { op: replace, path: /spec/maxReplicaCount, value: 12 }
      - { op: replace, path: /spec/triggers/0/metadata/lagThreshold, value: '250' }
`,
  values: {
    image: { registry: 'registry.team.test', repository: 'sms/hub', tag: '0.5.0' },
    settings: {
      HUB_BASE_URL: 'https://sms.team.test',
      HUB_TRUSTED_PROXIES: '192.0.2.10,192.0.2.11',
      HUB_OPERATOR_SMPP_URL: 'smpps://team@smpp.operator.test:3550',
      HUB_OTLP_URL: 'http://otel-collector.monitoring:4318',
    },
    networkPolicies: {
      operator: { to: [{ ipBlock: { cidr: '198.51.100.0/28' } }] },
      sentinels: {
        to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'hub-data' } } }],
      },
    },
    apps: { dispatcher: { scaling: { max: 12, lag: { 'hub.accepted.otp.v1': 250 } } } },
  },
}

const issuer = { name: 'letsencrypt', kind: 'ClusterIssuer' }
const exposed = (className: string) => ({
  ingress: { enabled: true, className, annotations: { team: 'sms' }, tlsSecret: `${className}-tls` },
  httpRoute: { enabled: true, parentRefs: [{ name: className, namespace: 'gateways' }] },
  certificate: { enabled: true, issuerRef: issuer },
})
/** Uses what the other values leave out. */
const everything: Values = {
  image: {
    registry: 'registry.team.test',
    digest: `sha256:${'0a'.repeat(32)}`,
    pullPolicy: 'Always',
    pullSecrets: [{ name: 'registry' }],
  },
  fullnameOverride: 'team',
  settings: {
    HUB_KAFKA_USERNAME: 'hub',
    HUB_TOPIC_PREFIX: 'team.',
    HUB_KEY_PROVIDER: 'transit',
    HUB_TRANSIT_URL: 'https://vault.team.test:8200',
    HUB_TRANSIT_KEY_NAME: 'sms-hub',
  },
  networkPolicies: { transit: { to: [{ ipBlock: { cidr: '10.1.2.0/24' } }] } },
  secrets: {
    from: { HUB_KAFKA_PASSWORD: { name: 'hub-kafka-user', key: 'password' } },
    files: ['HUB_DATABASE_URL', 'HUB_TRANSIT_TOKEN', 'HUB_OPERATOR_SMPP_PASSWORD'],
  },
  externalSecrets: { enabled: true, store: { name: 'vault' }, hub: 'sms/hub', operator: 'sms/operator' },
  ca: { secret: 'authorities', key: 'bundle.pem' },
  pods: {
    annotations: { 'team.test/owner': 'sms' },
    labels: { 'team.test/cost': 'sms' },
    env: [{ name: 'TZ', value: 'UTC' }],
    volumes: [{ name: 'extra', configMap: { name: 'extra' } }],
    volumeMounts: [{ name: 'extra', mountPath: '/extra', readOnly: true }],
    nodeSelector: { 'kubernetes.io/arch': 'amd64' },
    tolerations: [{ key: 'sms', operator: 'Exists', effect: 'NoSchedule' }],
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: 'sms', operator: 'Exists' }] }],
        },
      },
    },
    priorityClassName: 'high',
  },
  apps: {
    dispatcher: {
      nodeSelector: { pool: 'sms' },
      priorityClassName: 'highest',
      serviceAccountAnnotations: { 'team.test/role': 'sms' },
      settings: { HUB_DATABASE_POOL: '4' },
      resources: { limits: { cpu: 2 } },
    },
    hubctl: { tolerations: [{ operator: 'Exists' }] },
  },
  prometheus: {
    serviceMonitors: { labels: { release: 'prometheus' } },
    rules: { enabled: true, runbooksUrl: 'https://wiki.test/runbooks', labels: { release: 'prometheus' } },
  },
  podDisruptionBudgets: { maxUnavailable: '25%' },
  expose: {
    clients: exposed('nginx'),
    staff: exposed('staff'),
    callbacks: { host: 'reports.team.test', ...exposed('nginx') },
  },
}
const unscaled: Values = {
  keda: { enabled: false },
  networkPolicies: { enabled: false },
  podDisruptionBudgets: { enabled: false },
  prometheus: { serviceMonitors: { enabled: false } },
  ca: { configMap: '' },
}

/** A cluster that has everything that the chart needs. */
const cluster: Pick<Run, 'apiVersions'> = {
  apiVersions: ['keda.sh/v1alpha1/ScaledObject', 'monitoring.coreos.com/v1/ServiceMonitor'],
}
const checked: Values = { checkCluster: true }
const deployed = (name: string, release: string | null): Values => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: {
    name,
    namespace: 'sms-hub',
    labels: {
      'app.kubernetes.io/name': 'command-api',
      'app.kubernetes.io/part-of': 'sms-delivery-hub',
    },
    ...(release === null ? {} : { annotations: { 'meta.helm.sh/release-name': release } }),
  },
})
const running = (partitions: string): Values => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'hub-settings', namespace: 'sms-hub' },
  data: { HUB_PARTITIONS: partitions },
})

const EXAMPLE = 'examples/operators'
const example = (file: string): ReadonlyArray<Doc> => documentsIn(textOf(`infra/helm/${EXAMPLE}/${file}`))

/** The file of values in docs/deploying.md. */
const ofThePage = parse(
  /```yaml\n *(?<text># hub\.yaml\n[^`]*)```/u
    .exec(textOf('docs/deploying.md'))
    ?.groups?.['text']?.replaceAll(/^ {3}/gmu, '') ?? '',
) as Values

/** Kafka with SASL/OAUTHBEARER. */
const accessTokens: Values = {
  settings: {
    HUB_KAFKA_MECHANISM: 'oauthbearer',
    HUB_KAFKA_USERNAME: 'hub',
    HUB_KAFKA_TOKEN_URL: 'https://login.team.test:8443/token',
    HUB_KAFKA_TOKEN_SCOPES: 'kafka',
    HUB_KAFKA_EXTENSIONS: 'logicalCluster=lkc-1',
  },
  networkPolicies: { tokenEndpoint: { to: [{ ipBlock: { cidr: '198.51.100.9/32' } }], port: 8443 } },
}

const good: Readonly<Record<string, Run>> = {
  ...Object.fromEntries(
    Object.entries(sizes).map(([name, values]) => [name, { values: [...values, required] }]),
  ),
  team: { values: [...sizes.small, required, TEAM.values] },
  everything: { values: [required, everything] },
  'the values of docs/deploying.md': {
    values: [...sizes.small, ofThePage, { checkCluster: false }],
  },
  'the example with operators': { values: [...sizes.small, required, valuesIn(`${EXAMPLE}/values.yaml`)] },
  'access tokens': { values: [required, accessTokens] },
  unscaled: { values: [required, unscaled] },
  'in a cluster': { values: [required, checked], ...cluster },
  'an upgrade in a cluster': {
    values: [required, checked],
    ...cluster,
    existing: [deployed('command-api', 'hub'), running('48')],
  },
  'a hub of kustomize that Helm takes over': {
    values: [required, checked],
    ...cluster,
    existing: [deployed('command-api', null)],
  },
  'the oldest Kubernetes': { values: [required], kubernetes: '1.30.0' },
}

/** Each mistake with its only line about it. */
const bad: ReadonlyArray<readonly [what: string, run: Run, expected: RegExp]> = [
  ['no values', { values: [] }, /at '\/settings': missing property 'HUB_BASE_URL'/u],
  [
    'no settings of the console',
    { values: [required, { apps: { 'operations-api': { settings: null } } }] },
    /at '\/apps\/operations-api': missing property 'settings'/u,
  ],
  [
    'no name of the secret',
    { values: [required, { secrets: { hub: '' } }] },
    /at '\/secrets\/hub': minLength: got 0, want 1/u,
  ],
  [
    'a default that is removed',
    { values: [required, { keda: null, apps: { projector: { scaling: null } } }] },
    /at '': missing property 'keda'/u,
  ],
  [
    'an unknown value',
    { values: [required, { imagePullPolicy: 'Always' }] },
    /at '': additional properties 'imagePullPolicy' not allowed/u,
  ],
  [
    'an unknown value below another',
    { values: [required, { apps: { dispatcher: { scaling: { maximum: 4 } } } }] },
    /at '\/apps\/dispatcher\/scaling': additional properties 'maximum' not allowed/u,
  ],
  [
    'an unknown app',
    { values: [required, { apps: { journal: {} } }] },
    /at '\/apps': additional properties 'journal' not allowed/u,
  ],
  [
    'an unknown setting',
    { values: [required, { settings: { HUB_PARTITION: '6' } }] },
    /at '\/settings': additional properties 'HUB_PARTITION' not allowed/u,
  ],
  [
    'a secret in plain text',
    { values: [required, { settings: { HUB_MASTER_KEY: 'A' } }] },
    /at '\/settings': additional properties 'HUB_MASTER_KEY' not allowed/u,
  ],
  [
    'a setting that is no text',
    { values: [required, { settings: { HUB_KAFKA_TLS: true } }] },
    /at '\/settings\/HUB_KAFKA_TLS': got boolean, want string/u,
  ],
  [
    'a setting that is no number',
    { values: [required, { settings: { HUB_PARTITIONS: 'many' } }] },
    /at '\/settings\/HUB_PARTITIONS': 'many' does not match pattern/u,
  ],
  [
    'a setting that is no choice',
    { values: [required, { settings: { HUB_KAFKA_TLS: 'yes' } }] },
    /at '\/settings\/HUB_KAFKA_TLS': value must be one of '', 'off', 'on'/u,
  ],
  [
    'an address with another scheme',
    { values: [required, { settings: { HUB_OPERATOR_SMPP_URL: 'https://smpp.team.test' } }] },
    /at '\/settings\/HUB_OPERATOR_SMPP_URL': .* does not match pattern '\^\(\(smpp\|smpps\):/u,
  ],
  [
    'a public address without TLS',
    { values: [required, { settings: { HUB_BASE_URL: 'http://sms.team.test' } }] },
    /at '\/settings\/HUB_BASE_URL': .* does not match pattern/u,
  ],
  [
    'a wrong type',
    { values: [required, { apps: { projector: { scaling: { min: '2' } } } }] },
    /at '\/apps\/projector\/scaling\/min': got string, want integer/u,
  ],
  [
    'a digest that is none',
    { values: [required, { image: { digest: 'latest' } }] },
    /at '\/image\/digest': 'latest' does not match pattern/u,
  ],
  [
    'more instances at least than at most',
    { values: [required, { apps: { projector: { scaling: { min: 9, max: 8 } } } }] },
    /apps\.projector\.scaling: min is 9 and max is 8/u,
  ],
  [
    'a fallback out of range',
    { values: [required, { apps: { 'command-api': { scaling: { fallback: 13 } } } }] },
    /apps\.command-api\.scaling\.fallback is 13: it must be from min, 3, to max, 12/u,
  ],
  [
    'more consumers than partitions',
    { values: [required, { settings: { HUB_PARTITIONS: '24' } }] },
    /apps\.dispatcher\.scaling\.max is 48, but there are 24 partitions/u,
  ],
  [
    'an operator that no policy permits',
    { values: [required, { networkPolicies: { operator: { to: [] } } }] },
    /networkPolicies\.operator\.to is empty, so no pod would reach the operator of settings\.HUB_OPERATOR_SMPP_URL/u,
  ],
  [
    'a token endpoint that no policy permits',
    { values: [required, { settings: { HUB_KAFKA_TOKEN_URL: 'https://login.team.test/token' } }] },
    /networkPolicies\.tokenEndpoint\.to is empty/u,
  ],
  [
    'a transit engine that no policy permits',
    { values: [required, { settings: { HUB_TRANSIT_URL: 'https://vault.team.test:8200' } }] },
    /networkPolicies\.transit\.to is empty, so no pod would reach the server of settings\.HUB_TRANSIT_URL/u,
  ],
  [
    'a file of a secret that does not exist',
    { values: [required, { secrets: { files: ['HUB_MASTER_KEYS'] } }] },
    /at '\/secrets\/files\/0': value must be one of/u,
  ],
  [
    'Sentinels without a port',
    { values: [required, { networkPolicies: { sentinels: { port: null } } }] },
    /at '\/networkPolicies\/sentinels': missing property 'port'/u,
  ],
  [
    'an identity provider that no policy permits',
    { values: [required, { networkPolicies: { identityProvider: { to: [] } } }] },
    /networkPolicies\.identityProvider\.to is empty/u,
  ],
  [
    'one ingress for clients and staff',
    {
      values: [
        required,
        {
          networkPolicies: {
            staff: {
              from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ingress' } } }],
            },
          },
        },
      ],
    },
    /the ingress of clients must not reach the operations API/u,
  ],
  [
    'a route without a gateway',
    { values: [required, { expose: { clients: { httpRoute: { enabled: true } } } }] },
    /expose\.clients\.httpRoute\.parentRefs is empty/u,
  ],
  [
    'callbacks without a host',
    { values: [required, { expose: { callbacks: { ingress: { enabled: true } } } }] },
    /expose\.callbacks\.host is empty/u,
  ],
  [
    'a certificate without a place',
    { values: [required, { expose: { staff: { certificate: { enabled: true } } } }] },
    /expose\.staff\.certificate needs ingress\.tlsSecret and certificate\.issuerRef/u,
  ],
  [
    'an external secret without a store',
    { values: [required, { externalSecrets: { enabled: true } }] },
    /externalSecrets needs store\.name, hub and operator/u,
  ],
  [
    'alerts without runbooks',
    { values: [required, { prometheus: { rules: { enabled: true } } }] },
    /prometheus\.rules\.runbooksUrl must be the address/u,
  ],
  [
    'an old Kubernetes',
    { values: [required], kubernetes: '1.29.4' },
    /kubeVersion: >=1\.30\.0-0 which is incompatible with Kubernetes v1\.29\.4/u,
  ],
  [
    'a cluster without KEDA',
    { values: [required, checked], apiVersions: ['monitoring.coreos.com/v1/ServiceMonitor'] },
    /the cluster has no keda\.sh\/v1alpha1\/ScaledObject: install KEDA/u,
  ],
  [
    'a cluster without the Prometheus operator',
    { values: [required, checked], apiVersions: ['keda.sh/v1alpha1/ScaledObject'] },
    /the cluster has no monitoring\.coreos\.com\/v1\/ServiceMonitor/u,
  ],
  [
    'a namespace with another hub',
    { values: [required, checked], ...cluster, existing: [deployed('command-api', 'other')] },
    /the namespace sms-hub has another hub, whose API is the Deployment command-api/u,
  ],
  [
    'a second hub with other names',
    {
      values: [required, checked, { fullnameOverride: 'second' }],
      ...cluster,
      existing: [deployed('command-api', null)],
    },
    /the namespace sms-hub has another hub/u,
  ],
  [
    'fewer partitions',
    {
      values: [required, checked, { settings: { HUB_PARTITIONS: '48' } }],
      ...cluster,
      existing: [running('96')],
    },
    /settings\.HUB_PARTITIONS is 48, but this hub has 96 partitions/u,
  ],
]

const lints: ReadonlyArray<readonly [name: string, values: ReadonlyArray<Values>]> = Object.entries(
  sizes,
).map(([name, values]) => [name, [...values, required]])

interface Rendered {
  readonly good: ReadonlyMap<string, Output>
  readonly bad: ReadonlyMap<string, Output>
  readonly lint: ReadonlyMap<string, Output>
}

const rendered = onceOnly(async (): Promise<Found<Rendered>> => {
  const names = Object.keys(good)
  const outputs = await runChart(
    [
      ...Object.values(good),
      ...bad.map(([, run]) => run),
      ...lints.map(([, values]) => ({ values, lint: true })),
    ],
    folder,
  )
  if ('missing' in outputs) return outputs
  const from = (keys: ReadonlyArray<string>, first: number) =>
    new Map(keys.map((key, index) => [key, outputs[first + index]!]))
  return {
    good: from(names, 0),
    bad: from(
      bad.map(([what]) => what),
      names.length,
    ),
    lint: from(
      lints.map(([name]) => name),
      names.length + bad.length,
    ),
  }
})

/** The objects of a run that must succeed. */
const documentsOf = ({ good: all }: Rendered, name: string): ReadonlyArray<Doc> => {
  const { error, text } = all.get(name)!
  expect(error).toBe('')
  return documentsIn(text).filter((document) => document !== null)
}

const keyOf = ({ kind, metadata }: Doc): string => `${kind} ${metadata.name}`

/** The variables of a container by their names, and the triggers of a ScaledObject by their topics. */
const inOrder = (list: ReadonlyArray<Doc>): ReadonlyArray<Doc> => {
  const nameOf = (one: Doc): string => String(one['name'] ?? one['metadata']?.topic)
  return list.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
}

/**
 * Both forms restart the pods after a change of a setting: kustomize with another name of the config map, the
 * chart with a checksum in the pods. The order of variables and triggers has no meaning.
 */
const comparable = (documents: ReadonlyArray<Doc>): Readonly<Record<string, Doc>> => {
  const text = JSON.stringify(documents, (key, value: unknown) =>
    (key === 'env' || key === 'triggers') && Array.isArray(value)
      ? inOrder(value as ReadonlyArray<Doc>)
      : value,
  )
  const all = JSON.parse(text.replaceAll(/hub-settings-[0-9a-z]{10}/gu, 'hub-settings')) as ReadonlyArray<Doc>
  for (const { kind, spec } of all) {
    if (kind !== 'Deployment') continue
    const { annotations } = spec.template.metadata
    if (annotations === undefined) continue
    expect(Object.keys(annotations as Doc)).toEqual(['checksum/settings'])
    delete spec.template.metadata.annotations
  }
  // A chart does not create its namespace.
  return Object.fromEntries(all.filter(({ kind }) => kind !== 'Namespace').map((one) => [keyOf(one), one]))
}

const fromKustomize = onceOnly(async (): Promise<Found<Readonly<Record<string, ReadonlyArray<Doc>>>>> => {
  const missing = await kubectlMissing()
  if (missing !== null) return { missing }
  const path = mkdtempSync(join(folder, 'overlay-'))
  writeFileSync(
    join(path, 'kustomization.yaml'),
    TEAM.overlay(relative(path, join(ROOT, 'infra/k8s/overlays/small'))),
  )
  const [base, small, large, team] = await Promise.all([
    kustomize(join(ROOT, 'infra/k8s/base')),
    kustomize(join(ROOT, 'infra/k8s/overlays/small')),
    kustomize(join(ROOT, 'infra/k8s/overlays/large')),
    kustomize(path),
  ])
  return { base, small, large, team }
})

const SECRETS = 'the secrets of the example'

const validated = onceOnly(async () => {
  const all = await rendered()
  if ('missing' in all) return all
  const sets = Object.keys(good).map((name) => [name, { documents: documentsOf(all, name) }] as const)
  // No package contains the definitions of Strimzi, CloudNativePG and the Redis operator.
  const documents = [
    ...example('secrets.yaml'),
    ...['redis.yaml', 'redis-sentinel.yaml']
      .flatMap(example)
      .filter(({ apiVersion }) => String(apiVersion).startsWith('cert-manager.io/')),
  ]
  return validate({ ...Object.fromEntries(sets), [SECRETS]: { documents } }, folder)
})

// The first run compiles the packages of Helm.
beforeAll(async () => void (await rendered()), COMPILED_WITHIN_MS)

describe('the Helm chart', () => {
  it.for(Object.keys(sizes) as ReadonlyArray<Size>)(
    'passes helm lint --strict: %s',
    async (name, context) => {
      const { lint } = await orSkip(context, rendered())
      // INFO recommends an icon, which no console shows.
      expect(
        lint
          .get(name)
          ?.text.split('\n')
          .filter((line) => line !== '' && !line.startsWith('[INFO]')),
      ).toEqual([])
    },
  )

  it.for([...(Object.keys(sizes) as ReadonlyArray<Size>), 'team'])(
    'renders what kustomize renders: %s',
    async (name, context) => {
      const overlays = await orSkip(context, fromKustomize())
      const chart = documentsOf(await orSkip(context, rendered()), name)
      expect(comparable(chart)).toEqual(comparable(overlays[name]!))
    },
  )

  it.for([...Object.keys(good), SECRETS])('is valid against every schema: %s', async (name, context) => {
    expect((await orSkip(context, validated()))[name]).toEqual([])
  })

  it.for(bad)('refuses %s with one line', async ([what, , expected], context) => {
    const { bad: all } = await orSkip(context, rendered())
    const { error, text } = all.get(what)!
    expect(text).toBe('')
    expect(error.split('\n').filter((line) => expected.test(line))).toHaveLength(1)
  })

  it('refuses an older KEDA, whose API leaves out the behavior of the fallback', async (context) => {
    const file = 'keda.sh_scaledobjects.yaml'
    const run = async (version: string): Promise<Run> => {
      const module = `github.com/kedacore/keda/v2@v${version}`
      const published = await orSkip(
        context,
        goFiles(`keda-${version}`, { [module]: [`config/crd/bases/${file}`] }),
      )
      const definition = parse(readFileSync(join(published.folder, file), 'utf8')) as Values
      return { values: [required, checked], ...cluster, existing: [definition] }
    }
    // KEDA 2.17.0 added the field, and refused a fallback without a type of metric (its list of changes).
    const [old, oldest] = await orSkip(context, runChart([await run('2.16.1'), await run('2.17.1')], folder))
    expect(old).toMatchObject({ text: '', error: expect.stringContaining('KEDA is older than 2.17.1') })
    expect(oldest?.error).toBe('')
  })

  it('applies each value where it belongs', async (context) => {
    const documents = documentsOf(await orSkip(context, rendered()), 'everything')
    const one = (kind: string, name: string): Doc =>
      documents.find((document) => keyOf(document) === `${kind} ${name}`)!
    const pods = (app: string): Doc => one('Deployment', `team-${app}`)['spec'].template
    const names = documents.map(({ metadata }) => String(metadata.name))
    // The Secrets of a team have their own names.
    expect(names.filter((name) => !name.startsWith('team-'))).toEqual(['hub-operator', 'hub-secrets'])
    expect(pods('dispatcher')).toMatchObject({
      metadata: { annotations: { 'team.test/owner': 'sms' }, labels: { 'team.test/cost': 'sms' } },
      spec: {
        serviceAccountName: 'team-dispatcher',
        nodeSelector: { pool: 'sms' },
        priorityClassName: 'highest',
        imagePullSecrets: [{ name: 'registry' }],
      },
    })
    expect(pods('projector').spec).toMatchObject({
      nodeSelector: { 'kubernetes.io/arch': 'amd64' },
      priorityClassName: 'high',
    })
    const [container] = pods('dispatcher').spec.containers
    expect(container.image).toBe(`registry.team.test/sms-delivery-hub@sha256:${'0a'.repeat(32)}`)
    expect(container.resources.limits).toEqual({ cpu: 2, memory: '1280Mi' })
    expect(container.env).toContainEqual({ name: 'HUB_DATABASE_POOL', value: '4' })
    expect(container.env).toContainEqual({ name: 'TZ', value: 'UTC' })
    expect(container.env).toContainEqual({
      name: 'HUB_KAFKA_PASSWORD',
      valueFrom: { secretKeyRef: { name: 'hub-kafka-user', key: 'password' } },
    })
    // The files of a pod are its own, and an app refuses files that every user may use.
    const { initContainers, volumes } = pods('dispatcher').spec
    const inFile = (name: string) => ({ name: `${name}_FILE`, value: `/secrets/${name}` })
    expect(container.env).toContainEqual(inFile('HUB_TRANSIT_TOKEN'))
    expect(container.env.filter(({ name }: Doc) => name === 'HUB_TRANSIT_TOKEN')).toEqual([])
    expect(container.volumeMounts).toContainEqual({ name: 'secrets', mountPath: '/secrets', readOnly: true })
    expect(volumes.find(({ name }: Doc) => name === 'secrets')?.projected).toEqual({
      defaultMode: 0o440,
      sources: [
        ['hub-secrets', 'HUB_DATABASE_URL'],
        ['hub-secrets', 'HUB_TRANSIT_TOKEN'],
        ['hub-operator', 'HUB_OPERATOR_SMPP_PASSWORD'],
      ].map(([name, key]) => ({ secret: { name, items: [{ key, path: key }] } })),
    })
    expect(initContainers[0].env).toContainEqual(inFile('HUB_DATABASE_URL'))
    expect(initContainers[0].volumeMounts.filter(({ name }: Doc) => name === 'secrets')).toEqual([
      {
        name: 'secrets',
        mountPath: '/secrets/HUB_DATABASE_URL',
        subPath: 'HUB_DATABASE_URL',
        readOnly: true,
      },
    ])
    expect(
      pods('projector').spec.volumes.find(({ name }: Doc) => name === 'secrets').projected.sources,
    ).toHaveLength(2)
    expect(one('NetworkPolicy', 'team-servers')['spec'].egress).toContainEqual({
      to: [{ ipBlock: { cidr: '10.1.2.0/24' } }],
      ports: [{ port: 8200 }],
    })
    // KEDA documentation, Apache Kafka scaler: `sasl` is scram_sha512, and the others are in the authentication.
    expect(one('TriggerAuthentication', 'team-hub-kafka')['spec']).toEqual({
      configMapTargetRef: [{ parameter: 'username', name: 'team-hub-settings', key: 'HUB_KAFKA_USERNAME' }],
      secretTargetRef: [
        { parameter: 'ca', name: 'authorities', key: 'bundle.pem' },
        { parameter: 'password', name: 'hub-kafka-user', key: 'password' },
      ],
    })
    expect(one('ScaledObject', 'team-dispatcher')['spec'].triggers[0].metadata).toMatchObject({
      sasl: 'scram_sha512',
      topic: 'team.hub.accepted.otp.v1',
      consumerGroup: 'team.hub.dispatcher',
    })
    expect(one('PrometheusRule', 'team-hub')['spec']).toEqual(
      documentsIn(
        prometheusRule(textOf('infra/observability/alerts/hub.yml'), 'https://wiki.test/runbooks'),
      )[0]?.['spec'],
    )
    const hosts = ['command-api', 'operations-api', 'dispatcher-callbacks'].map((name) => [
      one('Ingress', `team-${name}`)['spec'].rules[0].host,
      one('HTTPRoute', `team-${name}`)['spec'].hostnames[0],
      one('Certificate', `team-${name}`)['spec'].dnsNames[0],
    ])
    expect(hosts).toEqual(
      ['sms.example.com', 'sms-operations.example.com', 'reports.team.test'].map((host) => [
        host,
        host,
        host,
      ]),
    )
  })

  it('lets pods and KEDA get access tokens for Kafka', async (context) => {
    const documents = documentsOf(await orSkip(context, rendered()), 'access tokens')
    const named = (kind: string, name: string): Doc =>
      documents.find((document) => keyOf(document) === `${kind} ${name}`)!
    expect(named('NetworkPolicy', 'servers')['spec'].egress).toContainEqual({
      to: [{ ipBlock: { cidr: '198.51.100.9/32' } }],
      ports: [{ port: 8443 }],
    })
    // KEDA documentation, Apache Kafka scaler: the parameters of the authentication with `sasl: oauthbearer`.
    expect(
      named('TriggerAuthentication', 'hub-kafka')['spec'].configMapTargetRef.map(
        ({ key, parameter }: { readonly key: string; readonly parameter: string }) => [parameter, key],
      ),
    ).toEqual([
      ['ca', 'ca.crt'],
      ['username', 'HUB_KAFKA_USERNAME'],
      ['oauthExtensions', 'HUB_KAFKA_EXTENSIONS'],
      ['oauthTokenEndpointUri', 'HUB_KAFKA_TOKEN_URL'],
      ['scopes', 'HUB_KAFKA_TOKEN_SCOPES'],
    ])
    expect(named('ScaledObject', 'dispatcher')['spec'].triggers[0].metadata).toMatchObject({
      sasl: 'oauthbearer',
    })
  })

  it('reads what the example with operators makes', async (context) => {
    const documents = documentsOf(await orSkip(context, rendered()), 'the example with operators')
    const made = example('secrets.yaml').filter(({ kind }) => kind === 'ExternalSecret')
    const keysIn = new Map(
      made.map(({ spec }) => [
        spec.target.name,
        Object.keys(
          spec.target.template?.data ??
            Object.fromEntries(spec.data.map(({ secretKey }: Doc) => [secretKey, ''])),
        ),
      ]),
    )
    const read = workloadsOf(documents).flatMap(({ own }) =>
      [...own.values()].flatMap((source) => ('secret' in source ? [source] : [])),
    )
    const missing = read.filter(({ optional, secret }) => {
      const [name, key] = secret.split('/')
      return !optional && keysIn.get(name)?.includes(key!) !== true
    })
    expect(missing).toEqual([])
    const authentication = documents.find(({ kind }) => kind === 'TriggerAuthentication')?.['spec']
    const missingOfKeda = authentication.secretTargetRef.filter(
      ({ key, name }: Doc) => keysIn.get(name)?.includes(key) !== true,
    )
    expect(missingOfKeda).toEqual([])
    // Each Secret that the store reads is one that the role permits.
    const { rules } = example('secrets.yaml').find(({ kind }) => kind === 'Role')!
    expect(made.flatMap(({ spec }) => spec.data.map(({ remoteRef }: Doc) => remoteRef.key))).toSatisfy(
      (names: ReadonlyArray<string>) => names.every((name) => rules[0].resourceNames.includes(name)),
    )
  })

  it('has a fixed number of instances without KEDA', async (context) => {
    const documents = documentsOf(await orSkip(context, rendered()), 'unscaled')
    const kinds = new Set(documents.map(({ kind }) => kind as string))
    expect([...kinds].sort()).toEqual(['ConfigMap', 'Deployment', 'Service', 'ServiceAccount'])
    const replicas = documents
      .filter(({ kind }) => kind === 'Deployment')
      .map(({ metadata, spec }) => [metadata.name, spec.replicas])
    expect(Object.fromEntries(replicas)).toEqual({
      'command-api': 3,
      dispatcher: 3,
      projector: 2,
      'webhook-fanout': 2,
      'operations-api': 2,
      hubctl: 1,
    })
  })

  it('agrees with the code', async (context) => {
    const documents = documentsOf(await orSkip(context, rendered()), 'base')
    const namespace = { kind: 'Namespace', metadata: { name: 'sms-hub' } }
    expect([
      ...workloadFindings(workloadsOf(documents)),
      ...kubernetesFindings([namespace, ...documents], readCode()),
    ]).toEqual([])
  })
})
