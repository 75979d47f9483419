/** The local stack: real Kafka, PostgreSQL and Redis without Docker, and a whole hub on top of them. */
export { claimDataDir, releaseDataDir } from './claim.ts'
export { freePortBase, PORT_PLAN, type Ports, portsAt } from './ports.ts'
export { Problem } from './problem.ts'
export { tail } from './processes.ts'
export type { Service } from './service.ts'
export { readSettings, ROOT, type Settings } from './settings.ts'
export { removeData, type Report, type Stack, startStack } from './stack.ts'
