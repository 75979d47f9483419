/** Crash points behind requests to Kafka. See `@hub/crash-points`. */
import { crashPoint, type CrashPoint, crashPointsByType } from '@hub/crash-points'
import { KafkaUnavailable } from './port.ts'

const noAnswer = () => new KafkaUnavailable({ reason: 'timeout', detail: 'crash point' })

/** Kafka has executed the request. Reported failure: it did not answer in time. */
export const kafkaCrashPoint = (point: CrashPoint) => crashPoint(point, noAnswer)

/** The same behind an append of records of several types. */
export const kafkaCrashPoints = (points: Readonly<Record<string, CrashPoint>>) =>
  crashPointsByType(points, noAnswer)
