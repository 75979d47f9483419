/** The network of the nodes: a bridge on this machine, and a network namespace for each node. */
import { script } from '../../support/shell.ts'
import { BRIDGE, CONTROL_GROUP, MACHINE, NODES, SERVERS } from './plan.ts'

const addresses = [...SERVERS.kafka, SERVERS.postgres, SERVERS.standby, SERVERS.redis, SERVERS.operator]

/** Makes what does not exist yet. */
export const makeNetwork = (): Promise<string> =>
  script(`
ip link show ${BRIDGE} >/dev/null 2>&1 || ip link add ${BRIDGE} type bridge
for address in ${[MACHINE, ...addresses].join(' ')}; do ip addr replace "$address/24" dev ${BRIDGE}; done
ip link set ${BRIDGE} up
sysctl -qw net.ipv4.ip_forward=1
${NODES.map(
  ({ address, link, name, pods }) => `
if ! ip netns list | grep -qw ${name}; then
  ip netns add ${name}
  ip link add ${link} type veth peer name eth0 netns ${name}
  ip link set ${link} master ${BRIDGE} up
  ip -n ${name} link set lo up
  ip -n ${name} addr add ${address}/24 dev eth0
  ip -n ${name} link set eth0 up
  ip -n ${name} route add default via ${MACHINE}
fi
nsenter --net=/run/netns/${name} sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
ip route replace ${pods} via ${address}
${NODES.filter((other) => other.name !== name)
  .map((other) => `ip -n ${name} route replace ${other.pods} via ${other.address}`)
  .join('\n')}
`,
).join('')}`)

/** The control groups of version 1 that a node needs. */
const CONTROLLERS = ['cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer', 'blkio', 'pids', 'systemd']
const GROUPS = '/sys/fs/cgroup'
/** All pods together are as important as four programs of this machine. With eight, they starve Kafka when they start. */
const WEIGHT = 4096

/** A control group for each node, so that the pods of both nodes have different ones. */
export const makeControlGroups = (): Promise<string> =>
  script(
    `mkdir -p ${GROUPS}/cpu/${CONTROL_GROUP}
echo ${WEIGHT} > ${GROUPS}/cpu/${CONTROL_GROUP}/cpu.shares
${NODES.map(
  ({ name }) => `
for controller in ${CONTROLLERS.join(' ')}; do mkdir -p ${GROUPS}/$controller/${CONTROL_GROUP}/${name}; done
for group in ${CONTROL_GROUP} ${CONTROL_GROUP}/${name}; do
  for file in cpuset.cpus cpuset.mems; do cat ${GROUPS}/cpuset/$file > ${GROUPS}/cpuset/$group/$file; done
done
`,
).join('')}`,
  )

/** Removes the network of the nodes and of their pods. */
export const removeNetwork = (): Promise<string> =>
  script(`
${NODES.map(
  ({ link, name, pods }) => `
if [ -e /run/netns/${name} ]; then
  # The other ends of the pods of this node.
  nsenter --net=/run/netns/${name} ip -o link show type veth | awk -F'[ :@]+' '{print $2}' | { grep -v '^eth0$' || true; } |
    while read -r one; do ip -n ${name} link delete "$one" || true; done
  ip netns delete ${name}
fi
ip link delete ${link} 2>/dev/null || true
ip route delete ${pods} 2>/dev/null || true
`,
).join('')}
ip link delete ${BRIDGE} 2>/dev/null || true
for controller in ${CONTROLLERS.join(' ')}; do
  if [ -d ${GROUPS}/$controller/${CONTROL_GROUP} ]; then
    find ${GROUPS}/$controller/${CONTROL_GROUP} -depth -type d -exec rmdir {} + || true
  fi
done
`)
