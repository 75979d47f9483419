/**
 * The HTTP API as a definition: paths, parameters, bodies and answers, without handlers. The API
 * description, the reference and the typed client come from it. The server registers its routes by
 * {@link ROUTES} and validates requests itself, because the contract fixes the order of the checks
 * and the `param` of each error (see `requests/`). Source: docs/contract.
 */
import type { Scope } from '@hub/domain'
import { Context } from 'effect'
import { HttpApi, OpenApi } from 'effect/http-api'
import { KnownEvent } from '../schemas/events.ts'
import { AccountGroup } from './account.ts'
import { BatchesGroup } from './batches.ts'
import { type Deprecation, OperationDeprecation } from './deprecation.ts'
import { DescriptionGroup } from './description.ts'
import { EventsGroup } from './events.ts'
import { MessagesGroup } from './messages.ts'
import { OperationScope } from './operation.ts'
import { SendersGroup } from './senders.ts'
import { SummaryGroup } from './stats.ts'
import { TemplatesGroup } from './templates.ts'
import { WebhookEndpointsGroup } from './webhook-endpoints.ts'

/** Version of the contract. Source: VER-7. */
export const CONTRACT_VERSION = '0.4.0'

export class HubApi extends HttpApi.make('sms-delivery-hub')
  .add(
    MessagesGroup,
    BatchesGroup,
    TemplatesGroup,
    SendersGroup,
    WebhookEndpointsGroup,
    EventsGroup,
    AccountGroup,
    SummaryGroup,
    DescriptionGroup,
  )
  // Only webhooks refer to it, which are no operations of the API.
  .annotate(HttpApi.AdditionalSchemas, [KnownEvent])
  .annotateMerge(
    OpenApi.annotations({
      title: 'SMS Delivery Hub',
      version: CONTRACT_VERSION,
      description: [
        'Sends SMS from registered templates through one operator, and tells by status and by signed events what became of them.',
        'Bodies are JSON in UTF-8 and at most 4 MiB; an object that has the same name twice is refused. Moments are UTC with milliseconds. ' +
          'Ignore fields, event types and error codes that you do not know: new ones may come at any time.',
        'Each key may make `limits.api_rps` requests a second; `X-RateLimit-*` tells what is left. Any POST takes an `Idempotency-Key`, so ' +
          'that a repeat of a request whose answer was lost does nothing twice.',
        'Every answer has a `Request-Id`. A failure has a status of 400 or above and an error object; where it has a `retry_after`, the ' +
          '`Retry-After` header repeats it. The codes are listed at [`/docs/errors`](/docs/errors).',
      ].join('\n\n'),
    }),
  ) {}

export interface Route {
  /** `messages.send` */
  readonly operation: string
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** `/v1/messages/:id` */
  readonly path: string
  /** The scope that the API key must have; `null`: the operation requires no key. */
  readonly scope: Scope | null
  /** `null`: the operation is not deprecated. */
  readonly deprecation: Deprecation | null
}

/** All operations of the public API. A path with another method is 405 with `Allow`. */
export const ROUTES: ReadonlyArray<Route> = (() => {
  const routes: Array<Route> = []
  HttpApi.reflect(HubApi, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint, group }) => {
      routes.push({
        operation: `${group.identifier}.${endpoint.identifier}`,
        method: endpoint.method as Route['method'],
        path: endpoint.path,
        scope: Context.get(endpoint.annotations, OperationScope),
        deprecation: Context.get(endpoint.annotations, OperationDeprecation),
      })
    },
  })
  return routes
})()
