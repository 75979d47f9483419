/** What each app can connect to: everything that it needs, and nothing else. */
import { APPS, NAMESPACE } from '../deploy.ts'
import { KAFKA_PORT, POSTGRES_PORT, REDIS_PORT, SMPP_PORT } from '../servers.ts'
import type { Trial } from './trial.ts'

/** A denied connection is refused or gets no answer, as the network plugin does it. */
const CONNECT_MS = 3000

const CONNECT = `
const { connect } = require('node:net')
const tries = JSON.parse(process.argv[1])
Promise.all(tries.map(({ host, port }) => new Promise((resolve) => {
  const socket = connect({ host, port, timeout: ${CONNECT_MS} })
  const end = (is) => { socket.destroy(); resolve(is) }
  socket.on('connect', () => end(true)).on('timeout', () => end(false))
  socket.on('error', () => end(false))
}))).then((found) => console.log(JSON.stringify(found)))
`

/** The connections that an app may open. */
const ALLOWED: Readonly<Record<string, ReadonlyArray<string>>> = {
  'command-api': ['postgres', 'kafka', 'redis'],
  dispatcher: ['postgres', 'kafka', 'redis', 'operator'],
  projector: ['postgres', 'kafka'],
  'webhook-fanout': ['postgres', 'kafka'],
  'operations-api': ['postgres', 'kafka', 'redis'],
  hubctl: ['postgres', 'kafka', 'redis', 'operator', 'admin port', 'API'],
}

export const policies: Trial = async ({ cluster, pods }) => {
  const { addresses, kubectl } = cluster
  const [api] = await pods('command-api')
  const [dispatcher] = await pods('dispatcher')
  const targets = [
    { name: 'postgres', host: cluster.servers.databaseAddress(), port: POSTGRES_PORT },
    { name: 'kafka', host: addresses.kafka[0], port: KAFKA_PORT },
    { name: 'redis', host: addresses.redis, port: REDIS_PORT },
    { name: 'operator', host: addresses.operator, port: SMPP_PORT },
    { name: 'API', host: api!.address, port: 7300 },
    { name: 'admin port', host: dispatcher!.address, port: 7390 },
    { name: 'API of Kubernetes', host: 'kubernetes.default.svc.cluster.local', port: 443 },
    { name: 'metrics of Prometheus', host: 'prometheus-operated.monitoring.svc.cluster.local', port: 9090 },
  ]
  const faults: Array<string> = []
  let tries = 0
  for (const app of [...APPS, 'hubctl']) {
    const answer = await kubectl.run([
      '--namespace',
      NAMESPACE,
      'exec',
      `deployment/${app}`,
      '--',
      '/usr/local/bin/node',
      '-e',
      CONNECT,
      JSON.stringify(targets),
    ])
    const found = JSON.parse(answer.trim()) as ReadonlyArray<boolean>
    for (const [index, isConnected] of found.entries()) {
      const { host, name } = targets[index]!
      tries += 1
      // A pod always reaches itself.
      const isItself =
        (name === 'API' && app === 'command-api') || (name === 'admin port' && app === 'dispatcher')
      if (isItself) continue
      const isAllowed = ALLOWED[app]?.includes(name) === true
      if (isConnected !== isAllowed)
        faults.push(`${app} ${isConnected ? 'reaches' : 'does not reach'} ${name} (${host})`)
    }
  }
  return { figures: { tries }, faults }
}
