/** Insights: what becomes of messages. */
import { Insights } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'

export const insights: EndpointGroup = {
  name: 'insights',
  title: 'Insights',
  description: 'What becomes of messages, by hour or day.',
  endpoints: [
    endpoint({
      operation: 'insights.read',
      method: 'GET',
      path: '/v1/insights',
      summary: 'Read insights',
      description:
        'Delivery rate, times and failures of the messages that were accepted in 24 hours or 30 days (UTC), against the period ' +
        'before. The statistics have no senders and no SMS operators, and templates by day only.',
      useCase: Insights.read,
    }),
  ],
}
