/** The operation that returns the API description. */
import { Schema } from 'effect'
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from 'effect/http-api'
import { operation } from './operation.ts'

const readDescription = HttpApiEndpoint.get('openapi', '/v1/openapi.json', {
  success: Schema.Record(Schema.String, Schema.Json).annotate({ description: 'An OpenAPI 3.1 document.' }),
}).annotateMerge(
  operation({
    summary: 'Read this description',
    description: 'The machine-readable description of the API. It needs no key.',
    answer: 'An OpenAPI 3.1 document.',
    keyless: true,
    codes: [],
  }),
)

export const DescriptionGroup = HttpApiGroup.make('description')
  .add(readDescription)
  .annotateMerge(OpenApi.annotations({ title: 'Description', description: 'The API about itself.' }))
