/** Stuck work. */
import { Doctor, stuck as showStuck } from '@hub/operations'
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
        'The lag of each consumer by shard, the binds and the pace of the SMS operators, the oldest open messages, outboxes, dead letters, failing subscriptions, and what waits for moderation.',
      useCase: showStuck,
    }),
    endpoint({
      operation: 'stuck.check',
      method: 'GET',
      path: '/v1/doctor',
      summary: 'Check the dependencies of the hub',
      description:
        'PostgreSQL, Redis, Kafka, topics, consumers, outboxes, erasures, dead letters, the stop and the daily limit, each with its repair. It takes some seconds. `hubctl doctor` also checks its own environment.',
      useCase: Doctor.checkHub,
    }),
  ],
}
