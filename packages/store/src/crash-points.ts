/** Crash points behind statements and transactions. See `@hub/crash-points`. */
import { crashPoint, type CrashPoint, crashPointThatThrows } from '@hub/crash-points'
import { StorageUnavailable } from './sql.ts'

const lostConnection = () => new StorageUnavailable({ reason: 'unreachable', detail: 'CONNECTION_CLOSED' })

/** PostgreSQL has committed. Reported failure: the connection broke before the answer. */
export const storageCrashPoint = <B = unknown>(point: CrashPoint, happened?: (result: B) => boolean) =>
  crashPoint(point, lostConnection, happened)

/**
 * PostgreSQL has executed the statements of a transaction, which is not committed. Reported failure:
 * the connection broke, and the transaction is rolled back.
 */
export const transactionCrashPoint = (point: CrashPoint) =>
  crashPointThatThrows(point, () => Object.assign(new Error('crash point'), { code: 'CONNECTION_CLOSED' }))
