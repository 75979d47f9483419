/** The nodes: each is a containerd, a kubelet, a proxy of services and an enforcer of policies in its own network. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import type { Kubectl } from '../kubectl.ts'
import { attempt, run } from '../../support/shell.ts'
import type { OwnCluster } from './control-plane.ts'
import { writeKubeconfig } from './control-plane.ts'
import {
  CONTROL_GROUP,
  imageOf,
  NAME_SERVICE,
  type Node,
  NODES,
  POD_NETWORK,
  SERVICE_NETWORK,
} from './plan.ts'

const READY = { withinMs: 180_000, everyMs: 500 } as const
const CALL_WITHIN_MS = 30_000

const dirOf = (cluster: OwnCluster, node: Node): string => join(cluster.dir, node.name)
const socketOf = (cluster: OwnCluster, node: Node): string => join(dirOf(cluster, node), 'containerd.sock')

const containerdConfig = (cluster: OwnCluster, node: Node): string => {
  const dir = dirOf(cluster, node)
  return `version = 2
root = "${dir}/containerd/root"
state = "${dir}/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "${socketOf(cluster, node)}"
[ttrpc]
  address = "${socketOf(cluster, node)}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${imageOf('pause')}"
  # A root without CAP_SYS_RESOURCE cannot make a process safer from the out-of-memory killer than itself.
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  # The networks of the pods are then unmounted with the rest of the node.
  netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "${cluster.programs.plugins}"
  conf_dir = "${dir}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
`
}

const podNetwork = (dir: string, { pods }: Node) => ({
  cniVersion: '1.0.0',
  name: 'pods',
  plugins: [
    {
      type: 'bridge',
      bridge: 'pods',
      isGateway: true,
      ipMasq: false,
      hairpinMode: true,
      ipam: {
        type: 'host-local',
        dataDir: join(dir, 'ipam'),
        ranges: [[{ subnet: pods }]],
        routes: [{ dst: '0.0.0.0/0' }],
      },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
})

const kubeletConfig = (
  cluster: OwnCluster,
  node: Node,
  tls: { readonly cert: string; readonly key: string },
) => ({
  kind: 'KubeletConfiguration',
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  authentication: {
    anonymous: { enabled: false },
    webhook: { enabled: true },
    x509: { clientCAFile: cluster.authority.ca },
  },
  authorization: { mode: 'Webhook' },
  tlsCertFile: tls.cert,
  tlsPrivateKeyFile: tls.key,
  cgroupDriver: 'cgroupfs',
  cgroupRoot: `/${CONTROL_GROUP}/${node.name}`,
  clusterDNS: [NAME_SERVICE],
  clusterDomain: 'cluster.local',
  containerRuntimeEndpoint: `unix://${socketOf(cluster, node)}`,
  podLogsDir: join(dirOf(cluster, node), 'logs'),
  resolvConf: join(cluster.dir, 'resolv.conf'),
  failSwapOn: false,
  failCgroupV1: false,
  // Both nodes see the whole disk of this machine, which other programs fill.
  imageGCHighThresholdPercent: 99,
  imageGCLowThresholdPercent: 98,
  evictionHard: { 'memory.available': '200Mi', 'nodefs.available': '1%', 'imagefs.available': '1%' },
})

const proxyConfig = (kubeconfig: string, node: Node) => ({
  kind: 'KubeProxyConfiguration',
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  clientConnection: { kubeconfig },
  clusterCIDR: POD_NETWORK,
  mode: 'iptables',
  hostnameOverride: node.name,
  conntrack: { maxPerCore: 0 },
})

/** The client of the containerd of a node. */
export const containerd = (
  cluster: OwnCluster,
  node: Node,
  ...args: ReadonlyArray<string>
): Promise<string> => run('ctr', ['--address', socketOf(cluster, node), '--namespace', 'k8s.io', ...args])

/** Makes images, which are archives, known to nodes. */
export const importImages = async (
  cluster: OwnCluster,
  archives: ReadonlyArray<string>,
  nodes: ReadonlyArray<Node> = NODES,
): Promise<void> => {
  for (const archive of archives)
    await Promise.all(nodes.map((node) => containerd(cluster, node, 'images', 'import', archive)))
}

/** Starts the programs of a node that do not run. */
export const startNode = async (cluster: OwnCluster, node: Node): Promise<void> => {
  const { authority, daemons, programs } = cluster
  const dir = dirOf(cluster, node)
  for (const folder of ['containerd/root', 'containerd/state', 'kubelet', 'logs', 'cni', 'ipam'])
    mkdirSync(join(dir, folder), { recursive: true })
  const inNode = (command: string, args: ReadonlyArray<string>) => ({
    command: 'nsenter',
    args: [`--net=/run/netns/${node.name}`, command, ...args],
  })
  const write = (name: string, value: unknown): string => {
    const path = join(dir, name)
    writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value))
    return path
  }
  writeFileSync(join(cluster.dir, 'resolv.conf'), 'options ndots:1\n')
  write('cni/10-pods.conflist', podNetwork(dir, node))
  await daemons.start(
    `containerd-${node.name}`,
    inNode('containerd', ['--config', write('containerd.toml', containerdConfig(cluster, node))]),
  )
  await eventually(() => containerd(cluster, node, 'version').then(() => true), READY)

  const issued = await authority.issue(node.name, {
    name: `system:node:${node.name}`,
    group: 'system:nodes',
    hosts: [node.name, node.address],
  })
  await daemons.start(
    `kubelet-${node.name}`,
    inNode(programs.path('kubelet'), [
      `--config=${write('kubelet.json', kubeletConfig(cluster, node, issued))}`,
      `--kubeconfig=${writeKubeconfig(cluster, node.name, issued)}`,
      `--root-dir=${join(dir, 'kubelet')}`,
      `--hostname-override=${node.name}`,
      `--node-ip=${node.address}`,
      `--node-labels=topology.kubernetes.io/zone=zone-${node.name.at(-1)}`,
    ]),
  )
  const proxy = await authority.issue('kube-proxy', { name: 'system:kube-proxy' })
  const proxyKubeconfig = writeKubeconfig(cluster, 'kube-proxy', proxy)
  await daemons.start(
    `kube-proxy-${node.name}`,
    inNode(programs.path('kube-proxy'), [
      `--config=${write('kube-proxy.json', proxyConfig(proxyKubeconfig, node))}`,
    ]),
  )
  const router = await authority.issue('kube-router', { name: 'kube-router', group: 'system:masters' })
  await daemons.start(
    `kube-router-${node.name}`,
    inNode(programs.path('kube-router'), [
      `--kubeconfig=${writeKubeconfig(cluster, 'kube-router', router)}`,
      `--hostname-override=${node.name}`,
      // Only the policies: the routes are those of network.ts, and the proxy is that of Kubernetes.
      '--run-firewall=true',
      '--run-router=false',
      '--run-service-proxy=false',
      `--service-cluster-ip-range=${SERVICE_NETWORK}`,
      '--health-port=0',
    ]),
  )
}

/** kube-router wants the address range of the pods on each node. */
export const describeNodes = async (kubectl: Kubectl): Promise<void> => {
  for (const { name, pods } of NODES) {
    await eventually(() => kubectl.get('node', name).then(() => true), READY)
    const { spec } = await kubectl.get('node', name)
    if (spec.podCIDR === undefined)
      await kubectl.run([
        'patch',
        'node',
        name,
        '--patch',
        JSON.stringify({ spec: { podCIDR: pods, podCIDRs: [pods] } }),
      ])
  }
  await kubectl.run(['wait', '--for=condition=Ready', 'node', '--all', '--timeout=180s'], 200_000)
}

const kill = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

/** The processes that containerd has started for its containers. They outlive it. */
const shimsOf = (socket: string): ReadonlyArray<number> =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
        return command[0]?.endsWith('containerd-shim-runc-v2') === true && command.includes(socket)
      } catch {
        return false
      }
    })

/** Ends the processes of a node and of its pods, without notice: as if the machine had lost its power. */
export const killNode = async (cluster: OwnCluster, node: Node): Promise<void> => {
  const socket = socketOf(cluster, node)
  const listed = await attempt('ctr', ['--address', socket, '--namespace', 'k8s.io', 'task', 'ls'], {
    withinMs: CALL_WITHIN_MS,
  })
  for (const name of ['kubelet', 'containerd', 'kube-proxy', 'kube-router'])
    await cluster.daemons.signal(`${name}-${node.name}`, 'SIGKILL').catch(() => {})
  shimsOf(socket).forEach(kill)
  for (const [, pid] of listed.stdout.matchAll(/^\S+\s+(\d+)\s+RUNNING/gmu)) kill(Number(pid))
}

/** Ends the processes of a node, and unmounts the file systems of its pods. */
export const stopNode = async (cluster: OwnCluster, node: Node): Promise<void> => {
  await killNode(cluster, node)
  await cluster.daemons.stop(
    ...['kubelet', 'containerd', 'kube-proxy', 'kube-router'].map((name) => `${name}-${node.name}`),
  )
  // Processes that are ending still use the file systems.
  await delay(500)
  const dir = dirOf(cluster, node)
  const mounted = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${dir}/`))
    .toSorted()
    .toReversed()
  for (const path of mounted) await attempt('umount', ['--lazy', path])
  rmSync(dir, { recursive: true, force: true })
}
