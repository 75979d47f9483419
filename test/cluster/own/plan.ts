/** Addresses and names of the cluster that the test starts. They are private, and exist on this machine only. */
import type { ServerAddresses } from '../settings.ts'

export const BRIDGE = 'hub-cluster'
/** This machine, and the API server. */
export const MACHINE = '10.251.0.1'

export const SERVERS: ServerAddresses = {
  kafka: ['10.251.0.10', '10.251.0.11', '10.251.0.12'],
  postgres: '10.251.0.20',
  standby: '10.251.0.23',
  redis: '10.251.0.21',
  operator: '10.251.0.22',
}

export const POD_NETWORK = '10.252.0.0/16'
export const SERVICE_NETWORK = '10.253.0.0/16'
/** The first address of the services is that of the API server. */
export const API_SERVICE = '10.253.0.1'
export const NAME_SERVICE = '10.253.0.10'

export interface Node {
  readonly name: string
  readonly address: string
  /** The addresses of its pods. */
  readonly pods: string
  /** This machine's end of the connection to the node. */
  readonly link: string
}

export const NODES: ReadonlyArray<Node> = [1, 2].map((number) => ({
  name: `hub-node-${number}`,
  address: `10.251.0.${1 + number}`,
  pods: `10.252.${number}.0/24`,
  link: `hub-link-${number}`,
}))

/** The parent of the control groups of all nodes. */
export const CONTROL_GROUP = 'hub-cluster'

/** The images of the cluster have names of a registry that does not exist, so nodes never pull them. */
export const imageOf = (name: string, tag = '1'): string => `cluster.test/${name}:${tag}`
