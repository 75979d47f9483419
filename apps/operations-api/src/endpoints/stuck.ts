/** Stuck work. */
import { stuck as showStuck } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'

export const stuck: EndpointGroup = {
  name: 'stuck',
  title: 'Stuck work',
  description: 'What waits, since when, and whose it is.',
  endpoints: [
    endpoint({
      operation: 'stuck.read',
      method: 'GET',
      path: '/v1/stuck',
      summary: 'Read the stuck work',
      description:
        'The lag of each consumer by shard, the oldest open messages, outboxes, dead letters, failing subscriptions, and what waits for moderation.',
      useCase: showStuck,
    }),
  ],
}
