/** The port plan of a local hub. Every port is an offset from `HUB_PORT_BASE`; all listen on the loopback only. */
import { createServer } from 'node:net'
import { UserError } from './user-error.ts'

/** What listens where. Offsets are part of how people use a local hub: they are added to, never reordered. */
export const PORT_PLAN = {
  commandApi: { offset: 0, what: 'command-api' },
  operatorSimulator: { offset: 1, what: 'operator simulator' },
  operatorCallback: { offset: 2, what: 'dispatcher (delivery reports)' },
  secondCommandApi: { offset: 3, what: 'second command-api' },
  operatorSmpp: { offset: 4, what: 'operator simulator (SMPP)' },
  commandApiAdmin: { offset: 10, what: 'command-api (admin)' },
  dispatcherAdmin: { offset: 11, what: 'dispatcher (admin)' },
  projectorAdmin: { offset: 12, what: 'projector (admin)' },
  webhookFanoutAdmin: { offset: 13, what: 'webhook-fanout (admin)' },
  secondCommandApiAdmin: { offset: 14, what: 'second command-api (admin)' },
  secondDispatcherAdmin: { offset: 15, what: 'second dispatcher (admin)' },
  thirdDispatcherAdmin: { offset: 16, what: 'third dispatcher (admin)' },
  kafka: { offset: 20, what: 'Kafka' },
  kafkaController: { offset: 21, what: 'Kafka controller' },
  postgres: { offset: 22, what: 'PostgreSQL' },
  redis: { offset: 23, what: 'Redis' },
} as const satisfies Record<string, { readonly offset: number; readonly what: string }>

export type PortName = keyof typeof PORT_PLAN
export type Ports = Readonly<Record<PortName, number>>

/** Two hubs whose bases are this far apart do not meet. */
export const PORT_SPAN = 30

/** Nothing common listens on 7300 to 7329, and it lies below the ranges that systems take ephemeral ports from. */
export const DEFAULT_PORT_BASE = 7300

export const PORT_NAMES = Object.keys(PORT_PLAN) as ReadonlyArray<PortName>

/** The ports of a hub at a base. */
export const portsAt = (base: number): Ports => {
  if (!Number.isInteger(base) || base < 1024 || base > 65_535 - PORT_SPAN + 1) {
    throw new UserError(
      `HUB_PORT_BASE must be a whole number from 1024 to ${65_535 - PORT_SPAN + 1}: the hub takes ports from there on, up to ${PORT_SPAN - 1} above it.`,
    )
  }
  return Object.fromEntries(PORT_NAMES.map((name) => [name, base + PORT_PLAN[name].offset])) as Ports
}

/** Whether this process could listen on a port of the loopback now. */
export const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)))
  })

/** Something else listens where the hub wants to. */
export class PortInUseError extends UserError {}

/** Refuses to go on when something else listens on one of these ports. */
export const requireFree = async (ports: Ports, names: ReadonlyArray<PortName>): Promise<void> => {
  const taken = (
    await Promise.all(names.map(async (name) => ((await isFree(ports[name])) ? [] : [name])))
  ).flat()
  const first = taken[0]
  if (first === undefined) return
  const list = taken.map((name) => `${ports[name]} (${PORT_PLAN[name].what})`).join(', ')
  const elsewhere = ports.commandApi > 60_000 ? DEFAULT_PORT_BASE : ports.commandApi + 100
  throw new PortInUseError(
    `Port ${list} is taken by another program: move all ports of the hub with HUB_PORT_BASE, for example HUB_PORT_BASE=${elsewhere}.`,
  )
}

/** Where test hubs look for ports: above what services register, below where systems begin to hand out ephemeral ports. */
const FREE_RANGE = { from: 20_000, to: 32_000 }

/** A base at which every port of the plan is free now. A race with another process is told by the next `requireFree`. */
export const freePortBase = async (): Promise<number> => {
  const slots = Math.floor((FREE_RANGE.to - FREE_RANGE.from) / PORT_SPAN)
  // So many tries fail only where the range is in use nearly everywhere.
  for (let attempt = 0; attempt < 50; attempt++) {
    const base = FREE_RANGE.from + PORT_SPAN * Math.floor(Math.random() * slots)
    const free = await Promise.all(Object.values(portsAt(base)).map(isFree))
    if (free.every(Boolean)) return base
  }
  throw new UserError(`No ${PORT_SPAN} free ports were found from ${FREE_RANGE.from} to ${FREE_RANGE.to}.`)
}
