/** Use cases by their name: how `hubctl --api` calls them. */
import { Effect, Schema } from 'effect'
import { apiFailure } from '../http/failures.ts'
import { makeInputDecoder } from '../http/input.ts'
import type { Endpoint, EndpointGroup } from './endpoint.ts'

const Performance = Schema.Struct({
  use_case: Schema.String.annotate({ description: 'The name of the use case, such as `keys issue`.' }),
  input: Schema.Record(Schema.String, Schema.Json).annotate({ description: 'Its complete input.' }),
})

/** The endpoint for the use cases of other endpoints. */
export const performGroup = (endpoints: ReadonlyArray<Endpoint>): EndpointGroup => {
  const byName = new Map(
    endpoints.flatMap(({ performs }) => (performs === null ? [] : [[performs.name, performs.run] as const])),
  )
  const path = '/v1/perform'
  const decode = makeInputDecoder(Performance as Schema.Codec<unknown, unknown>, path, true, {})
  return {
    name: 'use_cases',
    title: 'Use cases',
    description: 'The operations of the other endpoints by their name, for `hubctl --api`.',
    endpoints: [
      {
        operation: 'use_cases.perform',
        method: 'POST',
        path,
        summary: 'Perform a use case',
        description:
          'Does the same as the endpoint of the use case, with the same permission and the same line in the audit trail. The answer is its output.',
        roles: null,
        input: Performance as Schema.Codec<unknown, unknown>,
        output: Schema.Record(Schema.String, Schema.Json) as Schema.Codec<unknown, unknown>,
        defaults: {},
        refusals: {},
        codes: ['not_found', 'forbidden', 'lookup_limit_reached'],
        media: null,
        performs: null,
        handle: Effect.fnUntraced(function* (caller, request) {
          const { input, use_case: name } = (yield* decode(request)) as typeof Performance.Type
          const run = byName.get(name)
          if (run === undefined) {
            return yield* apiFailure('not_found', {
              param: 'use_case',
              message: 'This API has no use case of this name. It may need direct access to the servers.',
            })
          }
          return yield* run(caller, input)
        }),
      },
    ],
  }
}
