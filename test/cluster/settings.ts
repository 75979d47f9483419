/** What the cluster test gets from its environment. README.md describes the variables. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSettings, UserError } from '@hub/local-stack'

/** The addresses of this machine at which the pods reach the servers of the hub. */
export interface ServerAddresses {
  readonly kafka: readonly [string, string, string]
  readonly postgres: string
  /** The second PostgreSQL server. */
  readonly standby: string
  readonly redis: string
  readonly operator: string
}

export interface ClusterSettings {
  /** Data, logs and process ids of everything that the test starts. */
  readonly dir: string
  /** Programs and images that the test has built. They are kept. */
  readonly cacheDir: string
  /** A folder with programs that somebody else has built. It is searched first. */
  readonly programs: string | null
  /** The configuration of a cluster that exists. Without it, the test starts one of its own. */
  readonly kubeconfig: string | null
  /** Set together with `kubeconfig`. */
  readonly existing: {
    readonly addresses: ServerAddresses
    /** The image of the hub, which the nodes can pull. */
    readonly image: string
    /** An image of nginx, which the nodes can pull. */
    readonly nginx: string
  } | null
}

type Environment = Readonly<Record<string, string | undefined>>

const required = (environment: Environment, name: string): string => {
  const value = environment[name] ?? ''
  if (value === '')
    throw new UserError(`KUBECONFIG names a cluster, and ${name} is not set: test/cluster/README.md.`)
  return value
}

const addressesOf = (text: string): ServerAddresses => {
  const addresses = text.split(',').map((address) => address.trim())
  const [first, second, third, postgres, standby, redis, operator] = addresses
  if (addresses.length !== 7 || addresses.some((address) => !/^\d+(?:\.\d+){3}$/u.test(address)))
    throw new UserError(
      'HUB_CLUSTER_ADDRESSES must be seven IPv4 addresses of this machine, separated by commas.',
    )
  return {
    kafka: [first!, second!, third!],
    postgres: postgres!,
    standby: standby!,
    redis: redis!,
    operator: operator!,
  }
}

export const readClusterSettings = (environment: Environment): ClusterSettings => {
  const kubeconfig = environment['KUBECONFIG'] || null
  return {
    dir: environment['HUB_CLUSTER_DIR'] || join(tmpdir(), 'sms-delivery-hub-cluster'),
    cacheDir: join(readSettings(environment).cacheDir, 'cluster'),
    programs: environment['HUB_CLUSTER_PROGRAMS'] || null,
    kubeconfig,
    existing:
      kubeconfig === null
        ? null
        : {
            addresses: addressesOf(required(environment, 'HUB_CLUSTER_ADDRESSES')),
            image: required(environment, 'HUB_CLUSTER_IMAGE'),
            nginx: environment['HUB_CLUSTER_NGINX'] || 'nginx:1.29',
          },
  }
}
