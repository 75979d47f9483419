/** The size of the hub's topics on the disk of the Kafka of a local hub. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Bytes of the log segments of each topic, without indexes. `dataDir` is the data folder of the hub. */
export const topicBytes = (dataDir: string): ReadonlyMap<string, number> => {
  const topics = new Map<string, number>()
  const data = join(dataDir, 'kafka/data')
  for (const folder of readdirSync(data)) {
    const topic = /^(?<topic>hub\..+)-\d+$/u.exec(folder)?.groups?.['topic']
    if (topic === undefined) continue
    for (const file of readdirSync(join(data, folder))) {
      if (!file.endsWith('.log')) continue
      topics.set(topic, (topics.get(topic) ?? 0) + statSync(join(data, folder, file)).size)
    }
  }
  return topics
}
