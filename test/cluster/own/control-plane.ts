/** The control plane: etcd, the API server, the controllers and the scheduler, on this machine. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '@hub/testkit'
import type { Daemons } from '../daemons.ts'
import { type Kubectl, makeKubectl } from '../kubectl.ts'
import type { Authority, Issued } from './authority.ts'
import { API_SERVICE, MACHINE, SERVICE_NETWORK } from './plan.ts'
import type { Programs } from './programs.ts'

const READY = { withinMs: 180_000, everyMs: 500 } as const

/** Where the API server listens, and the ports of etcd on the loopback interface. */
export interface ApiServer {
  readonly host: string
  readonly port: number
  readonly etcd: { readonly clients: number; readonly peers: number }
}

export const API_SERVER: ApiServer = { host: MACHINE, port: 6443, etcd: { clients: 23_790, peers: 23_800 } }

export interface OwnCluster {
  readonly dir: string
  readonly api: ApiServer
  readonly programs: Programs
  readonly daemons: Daemons
  readonly authority: Authority
}

/** Writes the configuration of a client of the API server. Returns its path. */
export const writeKubeconfig = (
  { api, authority, dir }: OwnCluster,
  name: string,
  { cert, key }: Issued,
): string => {
  const path = join(dir, `${name}.kubeconfig`)
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'hub',
        cluster: { server: `https://${api.host}:${api.port}`, 'certificate-authority': authority.ca },
      },
    ],
    users: [{ name, user: { 'client-certificate': cert, 'client-key': key } }],
    contexts: [{ name: 'hub', context: { cluster: 'hub', user: name } }],
    'current-context': 'hub',
  }
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 })
  return path
}

const flags = (values: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  Object.entries(values).map(([name, value]) => `--${name}=${value}`)

/** Starts etcd and the API server, unless they run. Returns kubectl for an administrator. */
export const startApiServer = async (cluster: OwnCluster): Promise<Kubectl> => {
  const { api, authority, daemons, dir, programs } = cluster
  const clients = `http://127.0.0.1:${api.etcd.clients}`
  const server = await authority.issue('kube-apiserver', {
    name: 'kube-apiserver',
    hosts: [api.host, API_SERVICE, 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'],
  })
  const toNodes = await authority.issue('kube-apiserver-client', {
    name: 'kube-apiserver-client',
    group: 'system:masters',
  })
  const proxy = await authority.issue('front-proxy', { name: 'front-proxy' })
  const admin = await authority.issue('admin', { name: 'admin', group: 'system:masters' })
  const kubectl = makeKubectl(() => programs.path('kubectl'), writeKubeconfig(cluster, 'admin', admin))

  await daemons.start('etcd', {
    command: programs.path('etcd'),
    args: [
      ...flags({
        'data-dir': join(dir, 'etcd'),
        'listen-client-urls': clients,
        'advertise-client-urls': clients,
        'listen-peer-urls': `http://127.0.0.1:${api.etcd.peers}`,
        'log-level': 'warn',
      }),
      // The cluster is thrown away with the machine.
      '--unsafe-no-fsync',
    ],
  })
  await daemons.start('kube-apiserver', {
    command: programs.path('kube-apiserver'),
    args: flags({
      'etcd-servers': clients,
      'bind-address': api.host,
      'advertise-address': api.host,
      'secure-port': String(api.port),
      'service-cluster-ip-range': SERVICE_NETWORK,
      'authorization-mode': 'Node,RBAC',
      'enable-admission-plugins': 'NodeRestriction',
      'client-ca-file': authority.ca,
      'tls-cert-file': server.cert,
      'tls-private-key-file': server.key,
      'service-account-issuer': 'https://kubernetes.default.svc',
      'service-account-key-file': authority.tokens.publicKey,
      'service-account-signing-key-file': authority.tokens.privateKey,
      'kubelet-client-certificate': toNodes.cert,
      'kubelet-client-key': toNodes.key,
      'kubelet-preferred-address-types': 'InternalIP',
      // KEDA adds metrics to the API, and the API server identifies users to it.
      'requestheader-client-ca-file': authority.ca,
      'requestheader-allowed-names': 'front-proxy',
      'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
      'requestheader-group-headers': 'X-Remote-Group',
      'requestheader-username-headers': 'X-Remote-User',
      'proxy-client-cert-file': proxy.cert,
      'proxy-client-key-file': proxy.key,
      'enable-aggregator-routing': 'true',
      profiling: 'false',
    }),
  })
  await eventually(() => kubectl.run(['get', '--raw=/readyz']).then(() => true), READY)
  return kubectl
}

/** Starts the controllers and the scheduler, unless they run. */
export const startControllers = async (cluster: OwnCluster): Promise<void> => {
  const { authority, daemons, programs } = cluster
  const user = async (name: string): Promise<string> =>
    writeKubeconfig(cluster, name, await authority.issue(name, { name: `system:${name}` }))
  await daemons.start('kube-controller-manager', {
    command: programs.path('kube-controller-manager'),
    args: flags({
      kubeconfig: await user('kube-controller-manager'),
      'service-account-private-key-file': authority.tokens.privateKey,
      'root-ca-file': authority.ca,
      'use-service-account-credentials': 'true',
      'leader-elect': 'false',
    }),
  })
  await daemons.start('kube-scheduler', {
    command: programs.path('kube-scheduler'),
    args: flags({ kubeconfig: await user('kube-scheduler'), 'leader-elect': 'false' }),
  })
}
