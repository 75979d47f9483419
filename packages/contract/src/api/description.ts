/** The operation that returns the API description. */
import { Schema } from 'effect'
import { HttpApiGroup, OpenApi } from 'effect/http-api'
import { getPublic } from './operation.ts'

export const DescriptionGroup = HttpApiGroup.make('description')
  .add(
    getPublic('openapi', '/v1/openapi.json', {
      summary: 'Read this description',
      description: 'The machine-readable description of the API. It needs no key.',
      answer: 'An OpenAPI 3.1 document.',
      success: Schema.Record(Schema.String, Schema.Json).annotate({
        description: 'An OpenAPI 3.1 document.',
      }),
    }),
  )
  .annotateMerge(OpenApi.annotations({ title: 'Description', description: 'The API about itself.' }))
