/**
 * Compares the manifests with the code, and returns one sentence for each error. It reads no files,
 * so that tests can show that it detects errors.
 */
import dockerignoreMatcher from '@balena/dockerignore'
import { ALL_APPS, catalogue, findInvalidSettings, unknownVariables } from '@hub/config'
import { topicCatalogue } from '@hub/kafka'
import { nodeFlags } from '@hub/local-stack'
import { isPublicAddress } from '@hub/webhooks'
import { PROGRAMS } from '../../../infra/bundle/bundle.ts'
import { ConfigProvider, Effect } from 'effect'
import {
  appsOf,
  type Code,
  type Doc,
  IDLE,
  interpolatedIn,
  programInImage,
  programOf,
  type Source,
  type Workload,
  workloadsOf,
} from './parse.ts'

const ofKind = (documents: ReadonlyArray<Doc>, kind: string): ReadonlyArray<Doc> =>
  documents.filter((document) => document['kind'] === kind)

const byName = (documents: ReadonlyArray<Doc>, kind: string, name: string): Doc | undefined =>
  ofKind(documents, kind).find(({ metadata }) => metadata.name === name)

const sameLabels = (selector: Doc, labels: Doc): boolean =>
  Object.entries(selector).every(([name, value]) => labels[name] === value)

// Settings

/** Sample values for secrets, which the manifests do not contain. */
const SAMPLES: Readonly<Record<string, string>> = {
  HUB_DATABASE_URL: 'postgres://hub:password@postgres:5432/hub?sslmode=verify-full',
  HUB_REDIS_URL: 'rediss://redis:6379',
  HUB_MASTER_KEY: Buffer.from('a master key that is no secret 1').toString('base64'),
  HUB_NUMBER_HASH_SECRET: 'hash secret '.repeat(4),
  HUB_OPERATOR_SMPP_PASSWORD: 'password',
}

/** Secrets that a hub has or does not have, as others of its settings say. The manifests have them all. */
const CHOSEN: ReadonlySet<string> = new Set(['HUB_MASTER_KEY', 'HUB_OPERATOR_SMPP_PASSWORD'])

const isSecret = new Map(catalogue.map(({ kind, name }) => [name, kind.secret]))

const settingFindings = ({ own, reader, shared, where }: Workload): ReadonlyArray<string> => {
  const all = new Map([...shared, ...own])
  const values = Object.fromEntries(
    [...all].flatMap(([name, source]): ReadonlyArray<[string, string]> => {
      if ('value' in source) return [[name, source.value]]
      const sample = SAMPLES[name]
      return sample === undefined || (source.optional && !CHOSEN.has(name)) ? [] : [[name, sample]]
    }),
  )
  // The same check that the process does at its start: unknown, missing and malformed settings.
  const mistakes = Effect.runSync(
    findInvalidSettings(reader).pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: values })),
    ),
  )
  const readers = new Map(catalogue.map(({ name, readBy }) => [name, readBy]))
  const isOpen = ([name, source]: [string, Source]) =>
    isSecret.get(name) === true && 'value' in source && source.value !== ''
  return [
    ...unknownVariables([...all.keys()]).map(({ name }) => `${where}: there is no setting ${name}`),
    ...mistakes.map(({ message }) => `${where}: ${message}`),
    ...[...own.keys()]
      .filter((name) => readers.get(name)?.includes(reader) === false)
      .map((name) => `${where}: ${name} is given to an app that does not read it`),
    ...[...all].filter(isOpen).map(([name]) => `${where}: ${name} is a secret in plain text`),
    // Each protocol of an operator has a secret.
    ...catalogue
      .filter(
        ({ kind, name, readBy }) =>
          kind.secret && name.startsWith('HUB_OPERATOR_') && readBy.includes(reader),
      )
      .filter(({ name }) => !all.has(name))
      .map(({ name }) => `${where}: ${name} cannot be set`),
  ]
}

/** The files of all programs in the image. */
const IMAGE_PROGRAMS: ReadonlySet<string> = new Set([...Object.keys(PROGRAMS).map(programInImage), IDLE])

const SETUP_COMMANDS = [
  ['migrations', 'apply'],
  ['topics', 'apply'],
] as const

const wordFindings = (workloads: ReadonlyArray<Workload>): ReadonlyArray<string> => [
  ...workloads.flatMap(({ reader, where, words }) => {
    const program = programOf(words)
    const flags = words.slice(0, words.indexOf(program))
    const wanted = reader === 'hubctl' ? [] : nodeFlags(reader)
    return [
      ...(IMAGE_PROGRAMS.has(program) ? [] : [`${where}: there is no program ${program}`]),
      ...(flags.join(' ') === wanted.join(' ')
        ? []
        : [`${where}: Node is started with ${flags.join(' ')} and not with ${wanted.join(' ')}`]),
    ]
  }),
  ...ALL_APPS.filter((app) => !workloads.some(({ reader }) => reader === app)).map(
    (app) => `nothing starts ${app}`,
  ),
  ...SETUP_COMMANDS.filter(
    ([noun, verb]) => !workloads.some(({ words }) => words.join(' ').includes(`${noun} ${verb}`)),
  ).map(([noun, verb]) => `nothing runs hubctl ${noun} ${verb}`),
]

/** Kubernetes connects pods over a network, so no server may be exempt from TLS. */
const serverFindings = (workloads: ReadonlyArray<Workload>): ReadonlyArray<string> =>
  workloads.flatMap(({ own, shared, where }) =>
    own.has('HUB_PLAINTEXT_SERVERS') || shared.has('HUB_PLAINTEXT_SERVERS')
      ? [`${where}: HUB_PLAINTEXT_SERVERS permits connections without TLS`]
      : [],
  )

/** Checks that apply to Kubernetes, Compose and systemd. */
export const workloadFindings = (workloads: ReadonlyArray<Workload>): ReadonlyArray<string> => [
  ...workloads.flatMap(settingFindings),
  ...wordFindings(workloads),
]

// Kubernetes

const PORT_SETTINGS: Readonly<Record<string, string>> = {
  admin: 'HUB_ADMIN_PORT',
  api: 'HUB_PORT',
  console: 'HUB_OPERATIONS_PORT',
  callbacks: 'HUB_OPERATOR_CALLBACK_PORT',
}

const PROBES = { startupProbe: '/healthz', readinessProbe: '/readyz', livenessProbe: '/healthz' } as const

/** An app ends within this many seconds of SIGTERM (docs/operating.md). */
const endsWithinS = (app: string): number => (app.endsWith('-api') ? 30 : 10)
/** For a machine under load. */
const MARGIN_S = 5
/** The shortest time between SIGTERM and SIGKILL. */
export const graceS = (app: string): number => endsWithinS(app) + MARGIN_S

const deploymentFindings = (deployment: Doc, { contains }: Code): ReadonlyArray<string> => {
  const { name } = deployment['metadata']
  const { template } = deployment['spec']
  const pod = template.spec
  const container = pod.containers[0]
  const where = `Kubernetes, Deployment ${name}`
  const ports = new Map<string, number>(
    container.ports.map((port: Doc) => [port['name'], port['containerPort']]),
  )
  const env = new Map<string, string>(container.env.map((entry: Doc) => [entry['name'], entry['value']]))
  const preStop = container.lifecycle?.preStop?.sleep?.seconds ?? 0
  const grace = pod.terminationGracePeriodSeconds ?? 0
  return [
    ...[...ports].flatMap(([port, number]) => {
      const setting = PORT_SETTINGS[port]
      return setting !== undefined && env.get(setting) === String(number)
        ? []
        : [
            `${where}: port ${port} is ${number} and ${setting ?? 'no setting'} is ${env.get(setting ?? '') ?? 'not set'}`,
          ]
    }),
    ...Object.entries(PROBES).flatMap(([probe, path]) => {
      const get = container[probe]?.httpGet
      return get?.path === path && ports.has(get.port) && contains(`case '${path}'`)
        ? []
        : [`${where}: ${probe} asks ${get?.path ?? 'nothing'} at ${get?.port ?? 'no port'}`]
    }),
    ...(grace >= preStop + graceS(name) ? [] : [`${where}: a grace period of ${grace} s is too short`]),
    ...(pod.volumes?.some((volume: Doc) => volume['name'] === 'data' && volume['emptyDir'] !== undefined)
      ? []
      : [`${where}: the folder of the member id is not an emptyDir volume`]),
  ]
}

/** Containers must have no unneeded privileges, and memory limits. */
const podFindings = (document: Doc): ReadonlyArray<string> => {
  const pod = document['spec'].template.spec
  const where = `Kubernetes, ${document['kind']} ${document['metadata'].name}`
  const isUnprivileged =
    pod.securityContext?.runAsNonRoot === true &&
    pod.securityContext?.seccompProfile?.type === 'RuntimeDefault' &&
    pod.automountServiceAccountToken === false
  return [...(pod.initContainers ?? []), ...pod.containers].flatMap(
    ({ name, resources, securityContext }: Doc): ReadonlyArray<string> => {
      const isLocked =
        isUnprivileged &&
        securityContext?.readOnlyRootFilesystem === true &&
        securityContext?.allowPrivilegeEscalation === false &&
        securityContext?.capabilities?.drop?.[0] === 'ALL'
      const isBounded = resources?.requests?.memory !== undefined && resources?.limits?.memory !== undefined
      return [
        ...(isLocked ? [] : [`${where}, ${name}: it has more privileges than it needs`]),
        ...(isBounded ? [] : [`${where}, ${name}: no memory limit`]),
      ]
    },
  )
}

/** Checks that services and monitors refer to existing ports and paths. */
const wiringFindings = (documents: ReadonlyArray<Doc>, { contains }: Code): ReadonlyArray<string> => {
  const deployments = ofKind(documents, 'Deployment')
  const services = ofKind(documents, 'Service')
  return [
    ...services.flatMap(({ metadata, spec }) => {
      const behind = deployments.find((found) =>
        sameLabels(spec.selector, found['spec'].template.metadata.labels),
      )
      const names = new Set(
        behind?.['spec'].template.spec.containers[0].ports.map((port: Doc) => port['name']),
      )
      return spec.ports
        .filter((port: Doc) => !names.has(port['targetPort']))
        .map(
          (port: Doc) =>
            `Kubernetes, Service ${metadata.name}: no container listens on ${port['targetPort']}`,
        )
    }),
    ...ofKind(documents, 'ServiceMonitor').flatMap(({ metadata, spec }) => {
      const behind = services.find((service) =>
        sameLabels(spec.selector.matchLabels, service['metadata'].labels ?? {}),
      )
      const names = new Set(behind?.['spec'].ports.map((port: Doc) => port['name']))
      return spec.endpoints
        .filter((one: Doc) => !names.has(one['port']) || !contains(`case '${one['path']}'`))
        .map((one: Doc) => `Kubernetes, ServiceMonitor ${metadata.name}: no ${one['path']} at ${one['port']}`)
    }),
    ...appsOf(documents).flatMap(({ metadata, spec }) => [
      ...(ofKind(documents, 'PodDisruptionBudget').some(
        (budget) =>
          sameLabels(budget['spec'].selector.matchLabels, spec.template.metadata.labels) &&
          // Kubernetes documentation, "Unhealthy Pod Eviction Policy": with the default, a pod that is
          // not ready cannot be evicted while the budget is not met.
          budget['spec'].unhealthyPodEvictionPolicy === 'AlwaysAllow',
      )
        ? []
        : [
            `Kubernetes, Deployment ${metadata.name}: no PodDisruptionBudget that permits the drain of a node`,
          ]),
      ...(ofKind(documents, 'ServiceMonitor').some((monitor) => monitor['metadata'].name === metadata.name)
        ? []
        : [`Kubernetes, Deployment ${metadata.name}: no ServiceMonitor`]),
    ]),
  ]
}

/**
 * Returns the metric names in a Prometheus query. For a histogram it returns the name that the code
 * defines.
 */
const metricsOfQuery = (query: string): ReadonlyArray<string> =>
  [...query.matchAll(/\bhub_[a-z0-9_]+/gu)].map(([name]) => name.replace(/_(?:bucket|count|sum)$/u, ''))

const CONSUMERS = ['dispatcher', 'projector', 'webhook-fanout'] as const

const scalingFindings = (
  documents: ReadonlyArray<Doc>,
  { metrics, contains }: Code,
): ReadonlyArray<string> => {
  const settings =
    ofKind(documents, 'ConfigMap').find(({ metadata }) => metadata.name.startsWith('hub-settings'))?.[
      'data'
    ] ?? {}
  const partitions = Number(settings.HUB_PARTITIONS)
  const prefix = settings.HUB_TOPIC_PREFIX ?? ''
  const topics = new Set(
    topicCatalogue({ prefix, partitions, replicationFactor: 3 }).map(({ topic }) => topic),
  )
  const namespace = documents.find(({ kind }) => kind === 'Namespace')?.['metadata'].name
  return [
    ...ofKind(documents, 'Deployment')
      .filter(
        ({ metadata, spec }) =>
          spec.replicas === undefined && byName(documents, 'ScaledObject', metadata.name) === undefined,
      )
      .map(({ metadata }) => `Kubernetes, Deployment ${metadata.name}: no ScaledObject`),
    ...ofKind(documents, 'ScaledObject').flatMap(({ metadata, spec }) => {
      const where = `Kubernetes, ScaledObject ${metadata.name}`
      const isConsumer = CONSUMERS.some((name) => name === metadata.name)
      const triggers = spec.triggers as ReadonlyArray<Doc>
      return [
        ...(byName(documents, 'Deployment', spec.scaleTargetRef.name) === undefined
          ? [`${where}: there is no Deployment ${spec.scaleTargetRef.name}`]
          : []),
        ...(isConsumer && spec.maxReplicaCount > partitions
          ? [`${where}: ${spec.maxReplicaCount} instances and ${partitions} partitions`]
          : []),
        ...(spec.fallback?.replicas >= spec.minReplicaCount && spec.fallback.replicas <= spec.maxReplicaCount
          ? []
          : [`${where}: no fallback between its least and its most instances`]),
        ...(triggers.some(({ type }) => type === (isConsumer ? 'kafka' : 'prometheus'))
          ? []
          : [`${where}: no trigger`]),
        ...triggers.flatMap(({ authenticationRef, metadata: asked, type }) =>
          type === 'kafka'
            ? [
                ...(topics.has(asked.topic) ? [] : [`${where}: there is no topic ${asked.topic}`]),
                // A consumer group is named after its app, and the code of the app contains the
                // name.
                ...(asked.consumerGroup === `${prefix}hub.${metadata.name}` &&
                contains(`hub.${metadata.name}`)
                  ? []
                  : [`${where}: there is no consumer group ${asked.consumerGroup}`]),
                // With one broker, KEDA would be blind while that broker is down.
                ...(asked.bootstrapServers === settings.HUB_KAFKA_BROKERS
                  ? []
                  : [`${where}: ${asked.bootstrapServers} is not HUB_KAFKA_BROKERS`]),
                ...(asked.tls === 'enable' &&
                byName(documents, 'TriggerAuthentication', authenticationRef?.name) !== undefined
                  ? []
                  : [`${where}: its trigger reads Kafka without TLS`]),
              ]
            : [
                ...metricsOfQuery(asked.query)
                  .filter((name) => !metrics.has(name))
                  .map((name) => `${where}: there is no metric ${name}`),
                ...(asked.query.includes(`namespace="${namespace}"`)
                  ? []
                  : [`${where}: its query also matches other hubs`]),
              ],
        ),
      ]
    }),
  ]
}

// Network

const addressOf = (value: number): string => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')

const rangeOf = (cidr: string): readonly [first: number, last: number] => {
  const [address = '', bits = '32'] = cidr.split('/')
  const first = address.split('.').reduce((value, octet) => value * 256 + Number(octet), 0)
  return [first, first + 2 ** (32 - Number(bits)) - 1]
}

/**
 * All special-purpose ranges smaller than 65,536 addresses are in these blocks, so each 256
 * addresses of them are probed.
 */
const FINE_GRAINED = [
  168 * 256 + 63,
  ...Array.from({ length: 256 }, (_, i) => 192 * 256 + i),
  198 * 256 + 51,
  203 * 256,
]

/** Sample addresses of IPv4, as numbers, and whether the hub treats them as public. */
let probes: ReadonlyArray<readonly [value: number, isPublic: boolean]> | null = null
const sampleAddresses = () =>
  (probes ??= [
    ...Array.from({ length: 65_536 }, (_, block) => block * 65_536 + 1),
    ...FINE_GRAINED.flatMap((block) => Array.from({ length: 256 }, (_, i) => block * 65_536 + i * 256 + 16)),
  ].map((value) => [value, isPublicAddress(addressOf(value))]))

/**
 * Checks that the policy of the fan-out permits exactly the addresses that the hub treats as
 * public, and that no other app may reach the internet.
 */
const networkFindings = (documents: ReadonlyArray<Doc>): ReadonlyArray<string> => {
  const policies = ofKind(documents, 'NetworkPolicy')
  const denied = policies.some(
    ({ spec }) =>
      Object.keys(spec.podSelector).length === 0 &&
      spec.policyTypes.length === 2 &&
      spec.ingress === undefined &&
      spec.egress === undefined,
  )
  const blocks = policies.flatMap(({ metadata, spec }) =>
    (spec.egress ?? [])
      .flatMap(({ to }: Doc) => to ?? [])
      .flatMap(({ ipBlock }: Doc) =>
        ipBlock === undefined ? [] : [{ policy: metadata.name as string, ...ipBlock }],
      ),
  ) as ReadonlyArray<{
    readonly policy: string
    readonly cidr: string
    readonly except?: ReadonlyArray<string>
  }>
  const unbound = policies.flatMap(({ metadata, spec }) =>
    (spec.egress ?? []).some(({ to }: Doc) => to === undefined || to.length === 0)
      ? [metadata.name as string]
      : [],
  )
  const wide = blocks.filter(({ cidr }) => Number(cidr.split('/')[1]) < 8)
  const open = wide.find(({ cidr, policy }) => policy === 'webhook-fanout' && cidr === '0.0.0.0/0')
  const except = (open?.except ?? []).map(rangeOf)
  const isPermitted = (value: number): boolean =>
    !except.some(([first, last]) => value >= first && value <= last)
  const different =
    open === undefined
      ? undefined
      : sampleAddresses().find(([value, isPublic]) => isPermitted(value) !== isPublic)
  return [
    ...(denied ? [] : ['Kubernetes, NetworkPolicy: no policy denies traffic by default']),
    ...unbound.map((name) => `Kubernetes, NetworkPolicy ${name}: it permits traffic to any address`),
    ...wide
      .filter(({ policy }) => policy !== 'webhook-fanout')
      .map(({ cidr, policy }) => `Kubernetes, NetworkPolicy ${policy}: it permits traffic to ${cidr}`),
    ...(open === undefined
      ? ['Kubernetes, NetworkPolicy webhook-fanout: it does not permit traffic to subscribers']
      : []),
    ...(different === undefined
      ? []
      : [
          `Kubernetes, NetworkPolicy webhook-fanout: ${addressOf(different[0])} is ${different[1] ? 'public but denied' : 'not public but permitted'}`,
        ]),
  ]
}

/** The namespaces whose pods may connect to an app. */
const namespacesOf = (policies: ReadonlyArray<Doc>, app: string): ReadonlyArray<string> =>
  policies
    .filter(({ spec }) => spec.podSelector.matchLabels?.['app.kubernetes.io/name'] === app)
    .flatMap(({ spec }) => spec.ingress ?? [])
    .flatMap(({ from }: Doc) => from ?? [{}])
    .map((peer: Doc) =>
      String(peer['namespaceSelector']?.matchLabels?.['kubernetes.io/metadata.name'] ?? 'any'),
    )

/** Whoever can reach the API of clients must not reach the operations API. */
const staffFindings = (documents: ReadonlyArray<Doc>): ReadonlyArray<string> => {
  const policies = ofKind(documents, 'NetworkPolicy')
  const ofClients = new Set([...namespacesOf(policies, 'command-api'), 'any'])
  return namespacesOf(policies, 'operations-api')
    .filter((namespace) => ofClients.has(namespace))
    .map(
      (namespace) =>
        `Kubernetes, NetworkPolicy: clients reach operations-api from the namespace ${namespace}`,
    )
}

/** The usual ports of Kafka and Redis without TLS. */
const PLAINTEXT_PORTS: ReadonlyArray<number> = [9092, 6379]

const serverPortFindings = (documents: ReadonlyArray<Doc>): ReadonlyArray<string> =>
  ofKind(documents, 'NetworkPolicy').flatMap(({ metadata, spec }) =>
    (spec.egress ?? [])
      .flatMap(({ ports }: Doc) => ports ?? [])
      .filter(({ port }: Doc) => PLAINTEXT_PORTS.includes(port))
      .map(({ port }: Doc) => `Kubernetes, NetworkPolicy ${metadata.name}: port ${port} has no TLS`),
  )

/**
 * `kubectl apply` must succeed after each change of a setting or of the image. The pods of a Job cannot be
 * changed (Kubernetes API, JobSpec: `template`), and its name does not change with them.
 */
const jobFindings = (documents: ReadonlyArray<Doc>): ReadonlyArray<string> =>
  ofKind(documents, 'Job').map(
    ({ metadata }) => `Kubernetes, Job ${metadata.name}: it cannot be applied again`,
  )

/** The addresses that `hubctl doctor` asks must be services, and each app must be among them. */
const doctorFindings = (documents: ReadonlyArray<Doc>): ReadonlyArray<string> => {
  const where = 'Kubernetes, Deployment hubctl'
  const hubctl = byName(documents, 'Deployment', 'hubctl')
  const env: ReadonlyArray<Doc> = hubctl?.['spec'].template.spec.containers[0].env ?? []
  const valueOf = (name: string): string => String(env.find((entry) => entry['name'] === name)?.['value'])
  const admin = new Map(
    valueOf('HUBCTL_ADMIN_URLS')
      .split(',')
      .map((entry) => entry.split('=') as [string, string]),
  )
  const isService = (url: string): boolean =>
    URL.canParse(url) &&
    byName(documents, 'Service', new URL(url).hostname)?.['spec'].ports.some(
      ({ port }: Doc) => String(port) === (new URL(url).port || '80'),
    ) === true
  return [
    ...ALL_APPS.filter((app) => !isService(admin.get(app) ?? '')).map(
      (app) => `${where}: doctor does not reach ${app}`,
    ),
    ...(isService(valueOf('HUB_SCHEMA_REGISTRY_URL')) ? [] : [`${where}: doctor does not reach the schemas`]),
  ]
}

export const kubernetesFindings = (documents: ReadonlyArray<Doc>, code: Code): ReadonlyArray<string> => [
  ...appsOf(documents).flatMap((deployment) => deploymentFindings(deployment, code)),
  ...ofKind(documents, 'Deployment').flatMap(podFindings),
  ...wiringFindings(documents, code),
  ...scalingFindings(documents, code),
  ...networkFindings(documents),
  ...staffFindings(documents),
  ...jobFindings(documents),
  ...doctorFindings(documents),
  ...serverFindings(workloadsOf(documents)),
  ...serverPortFindings(documents),
]

// Compose

/** The folders and files of the repository that a service mounts. */
const mountsOf = (service: Doc): ReadonlyArray<string> =>
  ((service['volumes'] ?? []) as ReadonlyArray<string>)
    .filter((volume) => volume.startsWith('.'))
    .map((volume) => volume.split(':')[0] ?? '')

export const composeFindings = (
  compose: Doc,
  parts: { readonly text: string; readonly envExample: string; readonly prometheus: Doc },
  { exists, version }: Code,
): ReadonlyArray<string> => {
  const services = Object.entries(compose['services'] as Record<string, Doc>)
  const { all, required } = interpolatedIn(parts.text)
  const offered = new Set(
    [...parts.envExample.matchAll(/^#? ?(?<name>[A-Z_]+)=/gmu)].map(({ groups }) => groups?.['name'] ?? ''),
  )
  const api = (compose['services'] as Record<string, Doc>)['command-api'] ?? {}
  const targets = (parts.prometheus['scrape_configs'] as ReadonlyArray<Doc>).flatMap(
    ({ dns_sd_configs: found }) => found,
  )
  return [
    ...services.flatMap(([name, service]) => [
      ...mountsOf(service)
        .filter((path) => !exists(`infra/compose/${path}`))
        .map((path) => `compose, ${name}: there is no ${path}`),
      ...(/:v?\d/u.test(String(service['image'])) || String(service['image']).endsWith(`:-${version}}`)
        ? []
        : [`compose, ${name}: ${service['image']} has no version`]),
      ...(service['deploy']?.resources?.limits?.memory === undefined
        ? [`compose, ${name}: no memory limit`]
        : []),
      ...(service['healthcheck'] === undefined ? [`compose, ${name}: no health check`] : []),
      ...Object.keys(service['depends_on'] ?? {})
        .filter((other) => !services.some(([found]) => found === other))
        .map((other) => `compose, ${name}: there is no service ${other}`),
    ]),
    ...[...required]
      .filter((name) => !offered.has(name))
      .map((name) => `compose: env.example does not name ${name}`),
    ...[...offered]
      .filter((name) => !all.has(name))
      .map((name) => `compose: nothing reads ${name} of env.example`),
    ...unknownVariables([...all].filter((name) => !OF_COMPOSE.has(name))).map(
      ({ name }) => `compose: there is no setting ${name}`,
    ),
    ...ALL_APPS.flatMap((app) => {
      const grace = Number.parseInt(
        (compose['services'] as Record<string, Doc>)[app]?.['stop_grace_period'],
        10,
      )
      return grace >= graceS(app) ? [] : [`compose, ${app}: a grace period of ${grace} s is too short`]
    }),
    ...ALL_APPS.flatMap((app) => {
      const port = (compose['services'] as Record<string, Doc>)[app]?.['environment'].HUB_ADMIN_PORT
      return targets.some((target: Doc) => target['names'].includes(app) && target['port'] === port)
        ? []
        : [`compose, prometheus: no scrape of ${app} at ${port}`]
    }),
    ...(parts.prometheus['global'].external_labels?.hub_runbooks === `\${${RUNBOOKS_URL}}` &&
    required.has(RUNBOOKS_URL) &&
    compose['services'].prometheus.environment?.[RUNBOOKS_URL] !== undefined
      ? []
      : ['compose, prometheus: the alerts have no address of the runbooks']),
    ...(String(api['ports']?.[0] ?? '').endsWith(`:${api['environment']?.HUB_PORT}`)
      ? []
      : ['compose, command-api: the published port is not the port of the app']),
  ]
}

/** The address of the runbooks. Prometheus inserts it into its external label. */
const RUNBOOKS_URL = 'HUB_RUNBOOKS_URL'

/** Variables that only Compose reads. */
const OF_COMPOSE: ReadonlySet<string> = new Set([
  'HUB_VERSION',
  'HUB_PUBLISHED_PORT',
  'HUB_OPERATIONS_PUBLISHED_PORT',
  RUNBOOKS_URL,
])

// Image

const matchers = new Map<string, ReturnType<typeof dockerignoreMatcher.default>>()

/** Whether `.dockerignore` keeps a file out of the builder, as a port of Docker's matcher decides. */
export const isIgnored = (dockerignore: string, path: string): boolean => {
  const known = matchers.get(dockerignore)
  const matcher = known ?? dockerignoreMatcher.default({ ignorecase: false }).add(dockerignore)
  matchers.set(dockerignore, matcher)
  return matcher.ignores(path)
}

/**
 * Checks that the image copies existing folders that its builder gets, uses the tested Node version,
 * and compiles with the flags of each app.
 */
export const imageFileFindings = (
  { compile, dockerfile, dockerignore }: Readonly<Record<'compile' | 'dockerfile' | 'dockerignore', string>>,
  { exists, node, version }: Code,
): ReadonlyArray<string> => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(?<words>.+)$/gmu)].flatMap(({ groups }) =>
    (groups?.['words'] ?? '').split(' ').slice(0, -1),
  )
  // A formatted list may have several lines.
  const compiled = compile.replaceAll(/\s+/gu, ' ')
  return [
    ...copied.filter((path) => !exists(path)).map((path) => `Dockerfile: there is no ${path}`),
    ...copied
      .filter((path) => isIgnored(dockerignore, path))
      .map((path) => `.dockerignore: the builder does not get ${path}`),
    ...(dockerfile.includes(`ARG NODE_IMAGE=node:${node}-`)
      ? []
      : [`Dockerfile: its Node version is not ${node}`]),
    ...(/^ARG NODE_IMAGE=\S+@sha256:[0-9a-f]{64}$/mu.test(dockerfile)
      ? []
      : ['Dockerfile: its base has no digest']),
    ...(dockerfile.includes(`image.version="${version}"`)
      ? []
      : [`Dockerfile: its version is not ${version}`]),
    ...ALL_APPS.filter(
      (app) =>
        !compiled.includes([...nodeFlags(app), programInImage(app)].map((word) => `'${word}'`).join(', ')),
    ).map((app) => `compile.ts: ${app} is compiled with other flags than it runs with`),
  ]
}
