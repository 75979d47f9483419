/** The age of the keys that encrypt new payloads. */
import { Effect, Metric } from 'effect'

const keyAge = Metric.gauge('hub_payload_key_age_seconds', {
  description: 'Age of the key that encrypts new payloads, by purpose.',
})
const oldKeyAge = Metric.gauge('hub_sealing_key_age_seconds', {
  description: 'Old name of hub_payload_key_age_seconds, until version 0.5.0.',
})

export const recordKeyAge = (purpose: string, seconds: number): Effect.Effect<void> =>
  Effect.forEach(
    [keyAge, oldKeyAge],
    (gauge) => Metric.update(Metric.withAttributes(gauge, { purpose }), seconds),
    { discard: true },
  )
