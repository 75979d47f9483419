/** Compares existing topics with the catalogue. */
import kafkajs, { type Admin } from 'kafkajs'
import type { TopicSpec } from './catalogue.ts'

/** A setting of an existing topic that differs from the catalogue. */
export interface TopicDifference {
  readonly topic: string
  readonly setting: string
  readonly wanted: string
  readonly found: string
}

/** The differences of existing topics. Fails where a topic does not exist. */
export const topicDifferences = async (
  admin: Admin,
  catalogue: ReadonlyArray<TopicSpec>,
): Promise<ReadonlyArray<TopicDifference>> => {
  if (catalogue.length === 0) return []
  const { topics } = await admin.fetchTopicMetadata({ topics: catalogue.map(({ topic }) => topic) })
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: catalogue.map(({ topic, config }) => ({
      type: kafkajs.ConfigResourceTypes.TOPIC,
      name: topic,
      configNames: Object.keys(config),
    })),
  })
  const differences: Array<TopicDifference> = []
  for (const { topic, partitions, replicationFactor, config } of catalogue) {
    const existing = topics.find(({ name }) => name === topic)?.partitions ?? []
    const required = {
      partitions: String(partitions),
      'replication factor': String(replicationFactor),
      ...config,
    }
    const actual: Record<string, string> = {
      partitions: String(existing.length),
      'replication factor': String(existing[0]?.replicas.length ?? 0),
    }
    for (const entry of resources.find(({ resourceName }) => resourceName === topic)?.configEntries ?? []) {
      actual[entry.configName] = entry.configValue
    }
    for (const [setting, wanted] of Object.entries(required)) {
      const found = actual[setting] ?? 'unset'
      if (found !== wanted) differences.push({ topic, setting, wanted, found })
    }
  }
  return differences
}
