/**
 * A run of the acceptance of sends: clients → acceptors → ledger and lanes, with several processes
 * that fail. The read model is a stand-in.
 */
import { topicNames } from '@hub/kafka'
import { HASH_SECRET } from '../dispatching/dispatchers.ts'
import { follow, ReadModel } from '../dispatching/read-model.ts'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { checkIdle } from '../world/idle.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'
import { startClients } from './clients.ts'
import { startCommandApis } from './command-apis.ts'

const SERVERS = ['kafka', 'postgres', 'redis']
const SECOND = 1000
const FAULTS_MS = 30 * SECOND
const QUIESCE_MS = 90 * SECOND
const LIFETIMES = {
  beforeSubmit: { otp: 300 * SECOND, service: 3600 * SECOND },
  report: { otp: 300 * SECOND, service: 3600 * SECOND },
}

/** PostgreSQL was unavailable: the hub logs an error then. */
export const UNRECORDED = /an acceptance batch was not recorded/u

export const runAccepting = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, expectedErrors: UNRECORDED, run }, plan, options)

const run = (simulation: Simulation): number => {
  const { broker, plan, world } = simulation
  const topics = topicNames()
  const commandApis = startCommandApis(simulation, LIFETIMES)
  follow(simulation, new ReadModel(broker, topics, ({ id }) => commandApis.ledger.projected.add(id)))
  const random = simulation.random('workload')
  const clients = startClients(simulation, commandApis, {
    count: Math.min(random.between(4, 30), plan.size),
    numbers: Array.from({ length: 4 }, (_, i) => `+7900123456${i}`),
    hashSecret: HASH_SECRET,
    withinMs: FAULTS_MS,
  })

  world.runFor(FAULTS_MS)
  simulation.endFaults()
  if (!world.runUntilSometimes(clients.isDone, QUIESCE_MS)) clients.checkProgress()
  const lanes = [topics.acceptedOtp, topics.acceptedService]
  const count = () => lanes.flatMap((topic) => broker.topic(topic).flat()).length
  checkIdle(simulation, [{ violation: 'the hub is not idle', what: 'records', count }])
  clients.check()
  return clients.sends.length
}
