/** The local stack: Kafka, PostgreSQL and Redis without Docker, and a whole hub on them. */
export { killProcessesOf, lockDataDir, stopProcessesOf } from './data-dir-lock.ts'
export { freePortBase, PORT_PLAN, PORT_SPAN, PortInUseError, type Ports, portsAt } from './ports.ts'
export { isAlive, processStartTime, readPidFile } from './pidfile.ts'
export { ensureJars, type Jars, type JarSet, pinJars, STACK_JARS } from './jars.ts'
export { programFile } from './bundles.ts'
export { findJava } from './java.ts'
export { type ClusterNode, newKafkaId, type SecuredListener, startKafka } from './kafka.ts'
export {
  copyAsStandby,
  DATABASE,
  DATABASE_USER,
  locatePostgres,
  type PostgresLocation,
  startPostgres,
  WITHOUT_FSYNC,
} from './postgres.ts'
export { isKafkaReady, isPostgresReady, isRedisReady } from './probe.ts'
export { findRedis, startRedis } from './redis.ts'
export { UserError } from './user-error.ts'
export { type Exit, launch, stopLeftoverProcesses, tail } from './processes.ts'
export { makeService, type Service } from './service.ts'
export { type SimulatorProtocol, readSettings, ROOT, type Settings } from './settings.ts'
export { databaseFolder, removeData, type ReportProgress, type Stack, startStack } from './stack.ts'
export {
  APP_NAMES,
  type AppName,
  type InstanceSettings,
  loginLink,
  nodeFlags,
  OPERATIONS_API,
  SIMULATOR_SMPP_ERRORS,
} from './apps.ts'
export { ensureSecrets } from './secrets.ts'
export { type Hub, type HubDescription, startHub } from './hub.ts'
