/** Counters: request rate, failed logins, flood windows and the hub's daily count. */
export { acceptsSettings } from './accepted.ts'
export { keepFloodWindowsReady } from './keep-flood-windows-ready.ts'
export { secondsToNextDay, utcDay } from './day.ts'
export {
  ATTEMPT_LEASE_MS,
  type AttemptVerdict,
  Counters,
  type CountersShape,
  CountersUnavailable,
  type FloodAcceptance,
  type FloodReservation,
  type FloodRequest,
  type FloodVerdict,
  type FloodWindows,
  type GateVerdict,
  type LoginResult,
  type RateVerdict,
  type RebuildOutcome,
  RESERVATION_LEASE_MS,
  UNAVAILABLE_REASONS,
  type UnavailableReason,
} from './port.ts'
export { readRedis, type RedisState, RedisUnusable } from './inspect.ts'
export { countersLayer, makeRedisCounters, type RedisCountersOptions } from './redis.ts'
export { type CountersState, MemoryCounters, memoryCounters, type MemoryCountersOptions } from './memory.ts'
export { MemorySharedTexts, memorySharedTexts } from './shared/memory.ts'
export {
  type DispatcherStatus,
  OPERATOR_STATUS_MS,
  type OperatorStatus,
  readOperatorStatus,
  recordOperatorStatus,
} from './shared/operator-status.ts'
export { SharedTexts, type SharedTextsShape } from './shared/port.ts'
export { makeRedisSharedTexts, sharedTextsLayer } from './shared/redis.ts'
