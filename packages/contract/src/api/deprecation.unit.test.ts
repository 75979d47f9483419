import { Schema } from 'effect'
import { HttpApi, OpenApi } from 'effect/http-api'
import { describe, expect, it } from 'vitest'
import type { Json, JsonObject } from '../json.ts'
import { type Deprecation, deprecationHeaders } from './deprecation.ts'
import { get, resource } from './operation.ts'

/** The description of an operation, as the generator makes it. */
const described = (deprecation?: Deprecation): JsonObject => {
  const operation = get('read', '/v1/old', {
    summary: 'Read',
    description: 'Read.',
    answer: 'The answer.',
    success: Schema.Struct({ id: Schema.String }),
    ...(deprecation === undefined ? {} : { deprecation }),
  })
  const api = HttpApi.make('test').add(resource('old', 'Old', 'Old.', operation))
  const { paths } = JSON.parse(JSON.stringify(OpenApi.fromApi(api))) as {
    readonly paths: Readonly<Record<string, { readonly get: JsonObject }>>
  }
  return paths['/v1/old']?.get ?? {}
}

const headersOf = (operation: JsonObject, status: string): ReadonlyArray<string> =>
  Object.keys(
    ((operation['responses'] as JsonObject)[status] as { readonly headers: Json }).headers as object,
  )

describe('a deprecated operation', () => {
  // Rules: VER-10
  it('has the headers of RFC 9745 and RFC 8594', () => {
    // Source: the examples of RFC 9745, 2.1 and 4, which are 23:59:59 of these days: `@1688169599` and
    // `Sun, 30 Jun 2024 23:59:59 GMT`.
    expect(deprecationHeaders({ since: '2023-06-30', sunset: '2024-06-30' })).toEqual({
      Deprecation: `@${1_688_169_599 - 86_399}`,
      Sunset: 'Sun, 30 Jun 2024 00:00:00 GMT',
    })
    expect(Object.keys(deprecationHeaders({ since: '2023-06-30', sunset: null }))).toEqual(['Deprecation'])
  })

  // Rules: VER-9, VER-10
  it('is described with its dates and headers', () => {
    const operation = described({ since: '2023-06-30', sunset: '2024-06-30' })
    expect(operation).toMatchObject({
      deprecated: true,
      'x-deprecated-since': '2023-06-30',
      'x-sunset': '2024-06-30',
    })
    for (const status of ['200', '401', '422']) {
      expect(headersOf(operation, status)).toEqual(expect.arrayContaining(['Deprecation', 'Sunset']))
    }
  })

  it('has no day of its end while that is not decided', () => {
    const operation = described({ since: '2023-06-30', sunset: null })
    expect(Object.keys(operation)).not.toContain('x-sunset')
    expect(headersOf(operation, '200')).toContain('Deprecation')
    expect(headersOf(operation, '200')).not.toContain('Sunset')
  })

  it('is not every operation', () => {
    const operation = described()
    expect(operation['deprecated']).toBeUndefined()
    expect(headersOf(operation, '200')).not.toContain('Deprecation')
  })
})
