/** The overview: whether the hub works. */
import { Overview } from '@hub/operations'
import { OVERVIEW_STREAM_PATH } from '../overview/stream.ts'
import { endpoint, type EndpointGroup } from './endpoint.ts'

export const overview: EndpointGroup = {
  name: 'overview',
  title: 'Overview',
  description: 'Whether the hub works.',
  endpoints: [
    endpoint({
      operation: 'overview.read',
      method: 'GET',
      path: '/v1/overview',
      summary: 'Read the overview',
      description: `What the hub sends, what waits, and what does not work. \`GET ${OVERVIEW_STREAM_PATH}\` sends the same object as server-sent events, when something has changed.`,
      useCase: Overview.read,
    }),
  ],
}
