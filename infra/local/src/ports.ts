/** The ports of a local hub: offsets from `HUB_PORT_BASE`, all on the loopback interface. */
// The supervisor loads this file, and needs nothing else of the testkit.
import { isFree, reservePort } from '@hub/testkit/free-port'
import { UserError } from './user-error.ts'

/** The listener of each port. Users rely on the offsets, so never change an existing one. */
export const PORT_PLAN = {
  commandApi: { offset: 0, what: 'command-api' },
  operatorSimulator: { offset: 1, what: 'operator simulator' },
  operatorCallback: { offset: 2, what: 'dispatcher (delivery reports)' },
  secondCommandApi: { offset: 3, what: 'second command-api' },
  operatorSmpp: { offset: 4, what: 'operator simulator (SMPP)' },
  operationsApi: { offset: 5, what: 'operations-api' },
  commandApiAdmin: { offset: 10, what: 'command-api (admin)' },
  dispatcherAdmin: { offset: 11, what: 'dispatcher (admin)' },
  projectorAdmin: { offset: 12, what: 'projector (admin)' },
  webhookFanoutAdmin: { offset: 13, what: 'webhook-fanout (admin)' },
  secondCommandApiAdmin: { offset: 14, what: 'second command-api (admin)' },
  secondDispatcherAdmin: { offset: 15, what: 'second dispatcher (admin)' },
  thirdDispatcherAdmin: { offset: 16, what: 'third dispatcher (admin)' },
  operationsApiAdmin: { offset: 17, what: 'operations-api (admin)' },
  kafka: { offset: 20, what: 'Kafka' },
  kafkaController: { offset: 21, what: 'Kafka controller' },
  postgres: { offset: 22, what: 'PostgreSQL' },
  redis: { offset: 23, what: 'Redis' },
} as const satisfies Record<string, { readonly offset: number; readonly what: string }>

export type PortName = keyof typeof PORT_PLAN
export type Ports = Readonly<Record<PortName, number>>

/** Two hubs whose bases differ by this number share no port. */
export const PORT_SPAN = 30

/** No common service uses 7300 to 7329, and these ports are below the ranges of ephemeral ports. */
export const DEFAULT_PORT_BASE = 7300

export const PORT_NAMES = Object.keys(PORT_PLAN) as ReadonlyArray<PortName>

/** The ports of a hub for a port base. */
export const portsAt = (base: number): Ports => {
  if (!Number.isInteger(base) || base < 1024 || base > 65_535 - PORT_SPAN + 1) {
    throw new UserError(
      `HUB_PORT_BASE must be a whole number from 1024 to ${65_535 - PORT_SPAN + 1}: the hub uses the ports from there up to ${PORT_SPAN - 1} above it.`,
    )
  }
  return Object.fromEntries(PORT_NAMES.map((name) => [name, base + PORT_PLAN[name].offset])) as Ports
}

/** Another program listens on a port of the hub. */
export class PortInUseError extends UserError {}

/** Fails with `PortInUseError` if another program listens on one of these ports. */
export const requireFree = async (ports: Ports, names: ReadonlyArray<PortName>): Promise<void> => {
  const taken = (
    await Promise.all(names.map(async (name) => ((await isFree(ports[name])) ? [] : [name])))
  ).flat()
  const first = taken[0]
  if (first === undefined) return
  const list = taken.map((name) => `${ports[name]} (${PORT_PLAN[name].what})`).join(', ')
  const freeBase = ports.commandApi > 60_000 ? DEFAULT_PORT_BASE : ports.commandApi + 100
  throw new PortInUseError(
    `Port ${list} is taken by another program: move all ports of the hub with HUB_PORT_BASE, for example HUB_PORT_BASE=${freeBase}.`,
  )
}

/** The ports for test hubs: above most registered services, below the ephemeral ports. */
const FREE_RANGE = { from: 20_000, to: 32_000 }

/** A port base whose ports are all free. They belong to this process until it ends. */
export const freePortBase = async (): Promise<number> => {
  const slots = Math.floor((FREE_RANGE.to - FREE_RANGE.from) / PORT_SPAN)
  // 50 attempts fail only if nearly the whole range is in use.
  for (let attempt = 0; attempt < 50; attempt++) {
    const base = FREE_RANGE.from + PORT_SPAN * Math.floor(Math.random() * slots)
    const ports = Array.from({ length: PORT_SPAN }, (_, offset) => base + offset)
    const free = await Promise.all(ports.map(isFree))
    if (!free.every(Boolean)) continue
    const reserved = await Promise.all(ports.map(reservePort))
    if (reserved.every(Boolean)) return base
  }
  throw new UserError(`There are no ${PORT_SPAN} free ports from ${FREE_RANGE.from} to ${FREE_RANGE.to}.`)
}
