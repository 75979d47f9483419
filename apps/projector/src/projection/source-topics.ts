/** The topics that the projection reads: the two lanes and the log. */
import { type TopicNames, topicNames } from '@hub/kafka'

/** By Kafka name: the name without the deployment's prefix, which checkpoints use. */
export const sourceTopics = (topics: TopicNames): ReadonlyMap<string, string> => {
  const unprefixed = topicNames()
  return new Map([
    [topics.acceptedOtp, unprefixed.acceptedOtp],
    [topics.acceptedService, unprefixed.acceptedService],
    [topics.messages, unprefixed.messages],
  ])
}
