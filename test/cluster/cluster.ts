/** A cluster with the servers of the hub: one that exists, or one that the test starts on this machine. */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { removeData } from '@hub/local-stack'
import { type Daemons, openDaemons } from './daemons.ts'
import { type Kubectl, makeKubectl } from './kubectl.ts'
import { manifest } from './manifests.ts'
import { installKeda, installNames, installPrometheus } from './own/add-ons.ts'
import { type Authority, openAuthority } from './own/authority.ts'
import { API_SERVER, type OwnCluster, startApiServer, startControllers } from './own/control-plane.ts'
import { makeImages } from './own/images.ts'
import { makeControlGroups, makeNetwork, removeNetwork } from './own/network.ts'
import { describeNodes, importImages, startNode, stopNode } from './own/nodes.ts'
import { imageOf, type Node, NODES, SERVERS } from './own/plan.ts'
import { builtPrograms, buildPrograms, type Programs } from './own/programs.ts'
import { openServers, type Servers } from './servers.ts'
import type { ClusterSettings, ServerAddresses } from './settings.ts'

export interface Cluster {
  readonly dir: string
  readonly kubectl: Kubectl
  /** The path of Helm. */
  readonly helm: () => string
  readonly daemons: Daemons
  readonly authority: Authority
  readonly servers: Servers
  readonly addresses: ServerAddresses
  /** The images of the hub and of nginx. */
  readonly images: { readonly hub: string; readonly nginx: string }
  /** The cluster that runs on this machine, or null. */
  readonly own: OwnCluster | null
  /** Tells the pods where the servers are. PostgreSQL is where its primary is. */
  readonly publishServers: () => Promise<void>
  /** Starts a node again that was ended, as a new one. */
  readonly replaceNode: (node: Node) => Promise<void>
  readonly up: (options: { readonly keepHubImage: boolean }) => Promise<void>
  readonly down: () => Promise<void>
}

export const openCluster = async (
  settings: ClusterSettings,
  report: (line: string) => void,
): Promise<Cluster> => {
  const { cacheDir, dir, existing, kubeconfig } = settings
  // PostgreSQL runs as another user if this is root.
  mkdirSync(dir, { recursive: true, mode: 0o755 })
  const programs: Programs | null = kubeconfig === null ? builtPrograms(settings.programs, cacheDir) : null
  const daemons = openDaemons(dir)
  const authority = await openAuthority(join(dir, 'certificates'))
  const addresses = existing?.addresses ?? SERVERS
  const servers = await openServers(dir, daemons, authority, addresses)
  const kubectl = makeKubectl(
    () => programs?.path('kubectl') ?? 'kubectl',
    kubeconfig ?? join(dir, 'admin.kubeconfig'),
  )
  const own: OwnCluster | null =
    programs === null ? null : { dir, api: API_SERVER, programs, daemons, authority }

  const publishServers = async (): Promise<void> => {
    const [first, second, third] = addresses.kafka
    await kubectl.apply(
      manifest('hub-data.yaml', {
        'kafka-a': first,
        'kafka-b': second,
        'kafka-c': third,
        postgres: servers.databaseAddress(),
        redis: addresses.redis,
      }),
    )
  }

  const startOwn = async (cluster: OwnCluster, keepHubImage: boolean): Promise<void> => {
    const images = await makeImages(cluster.programs, cacheDir, keepHubImage, report)
    report(`images: ${images.map(({ mebibytes, name }) => `${name} ${mebibytes} MiB`).join(', ')}`)
    await makeNetwork()
    await makeControlGroups()
    await startApiServer(cluster)
    await startControllers(cluster)
    report('the control plane is ready')
    await Promise.all(NODES.map((node) => startNode(cluster, node)))
    await importImages(
      cluster,
      images.map(({ path }) => path),
    )
    await describeNodes(kubectl)
    report(`${NODES.length} nodes are ready`)
    await installNames(kubectl)
    await installKeda(kubectl, cluster.programs)
    report('KEDA is ready')
    await installPrometheus(kubectl, cluster.programs)
    report('Prometheus is ready')
  }

  return {
    dir,
    kubectl,
    helm: () => programs?.path('helm') ?? 'helm',
    daemons,
    authority,
    servers,
    addresses,
    own,
    images:
      existing === null
        ? { hub: imageOf('sms-delivery-hub'), nginx: imageOf('nginx') }
        : { hub: existing.image, nginx: existing.nginx },
    publishServers,
    replaceNode: async (node) => {
      if (own === null) throw new Error('only a node on this machine can be replaced')
      await kubectl.run(['delete', 'node', node.name])
      await stopNode(own, node)
      await startNode(own, node)
      const images = await makeImages(own.programs, cacheDir, true, report)
      await importImages(
        own,
        images.map(({ path }) => path),
        [node],
      )
      await describeNodes(kubectl)
    },
    up: async ({ keepHubImage }) => {
      if (own !== null) {
        await buildPrograms(settings.programs, cacheDir, report)
        await startOwn(own, keepHubImage)
      }
      await servers.start()
      report('Kafka, PostgreSQL, Redis and the operator are ready')
      await publishServers()
    },
    down: async () => {
      if (own !== null) for (const node of NODES) await stopNode(own, node)
      const ended = await daemons.stopAll()
      report(`ended ${ended.length} programs`)
      if (own !== null) await removeNetwork()
      removeData(join(dir, 'postgres'))
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
