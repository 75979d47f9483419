import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Effect, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { describe, expect, it } from 'vitest'
import { registerSchemas } from './register.ts'
import { subjectOf } from './answers.ts'
import { SCHEMAS } from '../schemas/schemas.ts'

interface Stored {
  readonly id: number
  readonly version: number
  readonly schema: string
}

/**
 * The used part of Confluent's API, with or without the mode IMPORT. It refuses an id that another schema has, as
 * the registry of Confluent does in this mode.
 */
const startRegistry = async (options: {
  readonly imports: boolean
  readonly nextId?: number
  readonly subjects?: Readonly<Record<string, ReadonlyArray<Stored>>>
  /** Failures: status and text by method and path, such as `GET /subjects`. */
  readonly failing?: ReadonlyMap<string, readonly [status: number, text: string]>
}) => {
  const subjects = new Map<string, Array<Stored>>(
    Object.entries(options.subjects ?? {}).map(([name, versions]) => [name, [...versions]]),
  )
  const modes = new Map<string, string>()
  const withId = (id: number) => [...subjects.values()].flat().find((one) => one.id === id)
  let nextId = options.nextId ?? 1
  const answer = (method: string, path: string, body: any): readonly [number, unknown] => {
    const [, kind, name, third, fourth] = path.split('?', 1)[0]!.split('/').map(decodeURIComponent)
    const version = kind === 'schemas' ? third : fourth
    if (kind === 'mode') {
      if (!options.imports) return [405, { error_code: 405, message: 'no' }]
      modes.set(name!, body.mode)
      return [200, body]
    }
    if (kind === 'schemas') {
      const found = withId(Number(version))
      return found === undefined ? [404, { error_code: 40403, message: 'Schema not found' }] : [200, found]
    }
    if (name === undefined) return [200, [...subjects.keys()]]
    const versions = subjects.get(name!) ?? []
    if (method === 'GET') {
      const found = versions.find((one) => one.version === Number(version))
      return found === undefined ? [404, { error_code: 40402, message: 'Version not found.' }] : [200, found]
    }
    if (body.id !== undefined && modes.get(name!) !== 'IMPORT') return [422, { error_code: 42205 }]
    if (body.id !== undefined && withId(body.id) !== undefined) return [422, { error_code: 42207 }]
    const stored = {
      id: body.id ?? nextId++,
      version: body.version ?? versions.length + 1,
      schema: body.schema,
    }
    subjects.set(name!, [...versions, stored])
    return [200, { id: stored.id }]
  }
  // It never closes an idle connection: on a busy machine, the next request could meet the end of it.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const chunks: Array<Buffer> = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.once('end', () => {
      const text = Buffer.concat(chunks).toString('utf8')
      const failure = options.failing?.get(`${request.method} ${request.url!.split('?', 1)[0]}`)
      if (failure !== undefined) {
        response.writeHead(failure[0]).end(failure[1])
        return
      }
      const [status, body] = answer(request.method!, request.url!, text === '' ? null : JSON.parse(text))
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return {
    subjects,
    modes,
    // The clock stands still, so no request of a busy machine meets its time limit.
    register: () =>
      Effect.runPromise(Effect.provide(Effect.result(registerSchemas({ url })), TestClock.layer())),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const expectComplete = (subjects: ReadonlyMap<string, ReadonlyArray<Stored>>): void => {
  for (const { id, name, schema, version } of SCHEMAS) {
    const found = subjects.get(subjectOf(name))?.find((one) => one.version === version)
    expect(found?.id, `${name} ${version}`).toBe(id)
    expect(JSON.parse(found!.schema)).toEqual(schema)
  }
}

describe('registerSchemas', () => {
  it('sets the ids if the registry accepts them, and resets the modes', async () => {
    await using registry = await startRegistry({ imports: true, nextId: 1000 })
    const done = await registry.register()
    expect(Result.isSuccess(done) && done.success.every(({ how }) => how === 'imported')).toBe(true)
    expectComplete(registry.subjects)
    expect(new Set(registry.modes.values())).toEqual(new Set(['READWRITE']))
  })

  it('gets the same ids from an empty registry that assigns them, and changes nothing when repeated', async () => {
    await using registry = await startRegistry({ imports: false })
    const first = await registry.register()
    expect(Result.isSuccess(first) && first.success.every(({ how }) => how === 'counted')).toBe(true)
    expectComplete(registry.subjects)
    const again = await registry.register()
    expect(Result.isSuccess(again) && again.success.every(({ how }) => how === 'there')).toBe(true)
    expect([...registry.subjects.values()].flat()).toHaveLength(SCHEMAS.length)
  })

  const other = JSON.stringify({ type: 'record', name: 'Order', fields: [] })
  const failureOf = async (registry: Awaited<ReturnType<typeof startRegistry>>) => {
    const before = structuredClone(registry.subjects)
    const done = await registry.register()
    expect(registry.subjects).toEqual(before)
    if (Result.isSuccess(done)) throw new Error('It registered the schemas.')
    return done.failure
  }

  it('registers beside schemas of others whose ids differ, if the registry accepts ids', async () => {
    const orders = { id: 1000, version: 1, schema: other }
    await using registry = await startRegistry({ imports: true, subjects: { orders: [orders] } })
    expect(Result.isSuccess(await registry.register())).toBe(true)
    expectComplete(registry.subjects)
    expect(registry.subjects.get('orders')).toEqual([orders])
  })

  it('registers nothing if another schema has one of the ids', async () => {
    const subjects = { orders: [{ id: 20, version: 1, schema: other }] }
    await using registry = await startRegistry({ imports: true, subjects })
    const { detail, reason } = await failureOf(registry)
    expect(reason).toBe('other_schema')
    expect(detail).toMatch(/another schema with id 20,.*contexts/u)
  })

  it('registers nothing if a subject has another schema', async () => {
    for (const imports of [true, false]) {
      const subjects = { 'hub.ShardOpened': [{ id: 11, version: 1, schema: other }] }
      await using registry = await startRegistry({ imports, subjects })
      const { detail, reason } = await failureOf(registry)
      expect(reason).toBe('other_schema')
      expect(detail).toMatch(/another schema as version 1 of hub\.ShardOpened/u)
    }
  })

  it('registers nothing beside schemas of others if the registry assigns the ids', async () => {
    const subjects = { orders: [{ id: 1000, version: 1, schema: other }] }
    await using registry = await startRegistry({ imports: false, subjects })
    const { detail, reason } = await failureOf(registry)
    expect(reason).toBe('not_empty')
    expect(detail).toContain('orders')
  })

  it('accepts a schema that the registry spells in another way', async () => {
    const { id, name, schema, version } = SCHEMAS[0]!
    const reordered = Object.fromEntries(Object.entries(schema).toReversed())
    const subjects = { [subjectOf(name)]: [{ id, version, schema: JSON.stringify(reordered, null, 2) }] }
    await using registry = await startRegistry({ imports: true, subjects })
    const done = await registry.register()
    expect(Result.isSuccess(done) && done.success.filter(({ how }) => how === 'there')).toHaveLength(1)
  })

  it('stops at the first version that gets another id', async () => {
    await using registry = await startRegistry({ imports: false, nextId: 7 })
    const done = await registry.register()
    expect(Result.isFailure(done) && done.failure.reason).toBe('other_id')
    expect([...registry.subjects.values()].flat()).toHaveLength(1)
  })

  // Bodies of Confluent's API reference (50001 is an error of its storage), of its authorization, and of proxies.
  it.each([
    [
      true,
      'GET /subjects/hub.ShardOpened/versions/1',
      503,
      '{"error_code":50001,"message":"Error in the store"}',
    ],
    [true, `GET /schemas/ids/${SCHEMAS[0]!.id}`, 502, '<html>Bad Gateway</html>'],
    [false, 'GET /subjects', 403, '{"error_code":40301,"message":"User is denied operation Read"}'],
    [true, 'PUT /mode/hub.MessageAccepted', 429, ''],
  ] as const)(
    'registers nothing (imports: %s) if %s is answered with %i',
    async (imports, at, status, text) => {
      await using registry = await startRegistry({ imports, failing: new Map([[at, [status, text]]]) })
      const { detail, reason } = await failureOf(registry)
      expect(reason).toBe('unavailable')
      expect(detail).toContain(at)
      expect(detail).toContain(String(status))
    },
  )

  it('registers nothing if the subjects are not a list', async () => {
    for (const answer of [
      [200, '{}'],
      [404, '{"error_code":404,"message":"HTTP 404 Not Found"}'],
    ] as const) {
      await using registry = await startRegistry({
        imports: false,
        failing: new Map([['GET /subjects', answer]]),
      })
      expect((await failureOf(registry)).reason).toBe('unavailable')
    }
  })

  it('asks for no other subjects if nothing is missing', async () => {
    const failing = new Map<string, readonly [number, string]>()
    await using registry = await startRegistry({ imports: true, failing })
    expect(Result.isSuccess(await registry.register())).toBe(true)
    failing.set('GET /subjects', [403, ''])
    const again = await registry.register()
    expect(Result.isSuccess(again) && again.success.every(({ how }) => how === 'there')).toBe(true)
  })

  it('fails with `unavailable` without a registry', async () => {
    const done = await Effect.runPromise(Effect.result(registerSchemas({ url: 'http://127.0.0.1:9' })))
    expect(Result.isFailure(done) && done.failure.reason).toBe('unavailable')
  })
})
