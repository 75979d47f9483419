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
      notModified: 'The client has this document already: `If-None-Match` names its `ETag`.',
      success: Schema.Record(Schema.String, Schema.Json).annotate({
        description: 'An OpenAPI 3.1 document.',
      }),
    }),
  )
  .annotateMerge(OpenApi.annotations({ title: 'Description', description: 'The API about itself.' }))
