/** Deploys the hub with the steps of docs/deploying.md. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import type { Cluster } from './cluster.ts'
import type { Kubectl } from './kubectl.ts'
import { manifest } from './manifests.ts'
import { POD_NETWORK } from './own/plan.ts'
import { POSTGRES_PORT, REDIS_PORT, USER } from './servers.ts'

export const NAMESPACE = 'sms-hub'
export const APPS = ['command-api', 'dispatcher', 'projector', 'webhook-fanout', 'operations-api'] as const
export type App = (typeof APPS)[number]

const ROLLED_OUT_SECONDS = 420
const INGRESS_PORT = 30_080

export interface Deployment {
  /** The tag of the image. Default: that of the built image. */
  readonly tag?: string
  /** Settings beside those of the overlay. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Creates or replaces a secret or a config map. */
const put = async (cluster: Cluster, args: ReadonlyArray<string>): Promise<void> => {
  const text = await cluster.kubectl.run(['create', ...args, '--dry-run=client', '--output=yaml'])
  await cluster.kubectl.apply(text)
}

/** The secrets of docs/deploying.md, step 4, and the authority of the servers. */
export const createSecrets = async (cluster: Cluster): Promise<void> => {
  const { authority, servers } = cluster
  const { database, databaseUser, kafka, masterKey, numberHashSecret, redis, smpp } = servers.passwords()
  const inHub = ['--namespace', NAMESPACE]
  await put(cluster, ['configmap', 'hub-ca', ...inHub, `--from-file=ca.crt=${authority.ca}`])
  const secret = (name: string, values: Readonly<Record<string, string>>) =>
    put(cluster, [
      'secret',
      'generic',
      name,
      ...inHub,
      ...Object.entries(values).map(([key, value]) => `--from-literal=${key}=${value}`),
    ])
  await secret('hub-secrets', {
    HUB_DATABASE_URL: `postgres://${databaseUser}:${database}@postgres.hub-data:${POSTGRES_PORT}/hub?sslmode=verify-full`,
    HUB_REDIS_URL: `rediss://:${redis}@redis.hub-data:${REDIS_PORT}`,
    HUB_MASTER_KEY: masterKey,
    HUB_NUMBER_HASH_SECRET: numberHashSecret,
    HUB_KAFKA_PASSWORD: kafka,
  })
  await secret('hub-operator', { HUB_OPERATOR_SMPP_PASSWORD: smpp })
  await secret('keda-kafka', { sasl: 'scram_sha512', username: USER })
}

/** Writes the overlay. Returns its folder. */
export const writeOverlay = (
  { addresses, dir, images }: Pick<Cluster, 'addresses' | 'dir' | 'images'>,
  { settings = {}, tag = '1' }: Deployment,
): string => {
  const folder = join(dir, 'overlay')
  mkdirSync(folder, { recursive: true })
  const block = (address: string): string => `{ ipBlock: { cidr: ${address}/32 } }`
  const text = manifest('overlay.yaml', {
    hub: relative(folder, ROOT),
    image: images.hub.slice(0, images.hub.lastIndexOf(':')),
    tag,
    servers: [...addresses.kafka, addresses.postgres, addresses.standby, addresses.redis]
      .map(block)
      .join(', '),
    operator: block(addresses.operator),
  })
  writeFileSync(join(folder, 'kustomization.yaml'), text)
  const all = {
    HUB_BASE_URL: 'https://sms.example.com',
    HUB_TRUSTED_PROXIES: POD_NETWORK,
    HUB_KAFKA_USERNAME: USER,
    ...settings,
  }
  writeFileSync(
    join(folder, 'settings.env'),
    Object.entries(all)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  )
  return folder
}

/** Applies the overlay. Returns what kubectl says. */
export const applyOverlay = (cluster: Cluster, deployment: Deployment = {}): Promise<string> =>
  cluster.kubectl.run(['apply', '--kustomize', writeOverlay(cluster, deployment)])

/**
 * The version of each object that staff apply. `kubectl apply` also says `configured` if the server only adds its
 * defaults, which changes nothing.
 */
export const versionsOf = async (kubectl: Kubectl): Promise<Readonly<Record<string, string>>> => {
  const kinds =
    'deployments,networkpolicies,poddisruptionbudgets,services,serviceaccounts,configmaps,servicemonitors'
  const { items } = await kubectl.get(kinds, '--namespace', NAMESPACE)
  return Object.fromEntries(
    items.map(({ kind, metadata }: any) => [
      `${kind}/${metadata.name}`,
      String(metadata.generation ?? metadata.resourceVersion),
    ]),
  )
}

/** The names of the objects that are new or have another version. */
export const changedObjects = (
  before: Readonly<Record<string, string>>,
  after: Readonly<Record<string, string>>,
): ReadonlyArray<string> =>
  Object.keys(after)
    .filter((name) => before[name] !== after[name])
    .toSorted()

/** Waits until the pods of all apps are replaced and ready. */
export const rolledOut = async (
  cluster: Cluster,
  apps: ReadonlyArray<string> = [...APPS, 'hubctl'],
): Promise<void> => {
  for (const app of apps) await cluster.kubectl.rolledOut(NAMESPACE, `deployment/${app}`, ROLLED_OUT_SECONDS)
}

/** Runs hubctl in its pod. */
export const hubctl = (cluster: Cluster, ...args: ReadonlyArray<string>) =>
  cluster.kubectl.attempt([
    '--namespace',
    NAMESPACE,
    'exec',
    'deployment/hubctl',
    '--',
    '/usr/local/bin/node',
    'programs/hubctl.mjs',
    ...args,
  ])

const installIngress = async (cluster: Cluster): Promise<void> => {
  const { images, kubectl } = cluster
  await kubectl.apply(manifest('ingress.yaml', { nginx: images.nginx }))
  const configuration = join(import.meta.dirname, 'manifests/nginx.conf')
  await put(cluster, [
    'configmap',
    'nginx',
    '--namespace',
    'ingress',
    `--from-file=nginx.conf=${configuration}`,
  ])
  await kubectl.rolledOut('ingress', 'deployment/nginx', 120)
}

/** The address of the API for clients. */
export const apiUrl = async ({ kubectl }: Cluster): Promise<string> => {
  const { items } = await kubectl.get('nodes')
  const [node] = items
  const address = node?.status.addresses.find(({ type }: { type: string }) => type === 'InternalIP')?.address
  return `http://${address}:${INGRESS_PORT}`
}

/** Deploys the hub into an empty namespace, or changes what is there. */
export const deployHub = async (cluster: Cluster, report: (line: string) => void): Promise<void> => {
  await cluster.kubectl.run(['apply', '--filename', join(ROOT, 'infra/k8s/base/namespace.yaml')])
  await createSecrets(cluster)
  await applyOverlay(cluster)
  report('the manifests are applied')
  await rolledOut(cluster)
  // A Deployment begins with one pod, and KEDA raises it to the two of the overlay `small`.
  await eventually(
    async () => {
      for (const app of APPS) {
        const { status } = await cluster.kubectl.get(`deployment/${app}`, '--namespace', NAMESPACE)
        if ((status.readyReplicas ?? 0) < 2)
          throw new Error(`${app} has ${status.readyReplicas ?? 0} ready pods`)
      }
      return true
    },
    { withinMs: ROLLED_OUT_SECONDS * 1000, everyMs: 1000 },
  )
  report('all pods are ready')
  await installIngress(cluster)
  const url = await apiUrl(cluster)
  await eventually(
    async () => {
      const { status } = await fetch(`${url}/v1/account`, { signal: AbortSignal.timeout(5000) })
      if (status !== 401) throw new Error(`GET /v1/account without a key is answered with ${status}`)
      return true
    },
    { withinMs: 60_000, everyMs: 500 },
  )
  report(`the API answers at ${url}`)
}
