/** The age of the keys that encrypt new payloads. */
import { Metric } from 'effect'

export const keyAge = Metric.gauge('hub_sealing_key_age_seconds', {
  description: 'Age of the key that encrypts new payloads, by purpose.',
})
