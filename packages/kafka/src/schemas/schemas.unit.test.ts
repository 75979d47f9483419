import { assert, describe, it } from '@effect/vitest'
import avro from 'avsc'
import { vi } from 'vitest'
import { fingerprintOf, publicationProblems, publicationsOf, schemaProblems } from './compatibility.ts'
import { RECORD_NAMES, SCHEMAS, type AvroSchema, type SchemaVersion } from './schemas.ts'
import { registryAnswer, subjectOf } from '../registry/answers.ts'

/** A next version of a published schema, with a correct fingerprint. */
const next = (of: SchemaVersion, change: (fields: Array<Record<string, unknown>>) => void): SchemaVersion => {
  const schema = structuredClone(of.schema) as { fields: Array<Record<string, unknown>> }
  change(schema.fields)
  return {
    name: of.name,
    version: of.version + 1,
    id: 9000,
    schema: schema as unknown as AvroSchema,
    fingerprint: fingerprintOf(schema as unknown as AvroSchema),
  }
}
const latest = (name: string) => SCHEMAS.filter((schema) => schema.name === name).at(-1)!
const field = (fields: Array<Record<string, unknown>>, name: string) =>
  fields.find((f) => f['name'] === name)!

describe('the committed schemas', () => {
  it('have fixed ids and unchanged content, and can read all earlier versions', () => {
    assert.deepStrictEqual(schemaProblems(SCHEMAS), [])
  })

  it('include every record type', () => {
    assert.deepStrictEqual([...new Set(SCHEMAS.map(({ name }) => name))].sort(), [...RECORD_NAMES].sort())
  })

  it('document every field, give every enum a default, and put null first in a union', () => {
    const visit = (part: unknown, path: string): ReadonlyArray<string> => {
      if (typeof part !== 'object' || part === null) return []
      const here: Array<string> = []
      if (Array.isArray(part)) {
        if (part[0] !== 'null') here.push(`${path}: null is not first`)
        return [...here, ...part.flatMap((branch) => visit(branch, path))]
      }
      const schema = part as Record<string, unknown>
      if (schema['type'] === 'enum' && schema['default'] === undefined)
        here.push(`${path}: enum without a default`)
      if (Array.isArray(schema['fields'])) {
        for (const f of schema['fields'] as ReadonlyArray<Record<string, unknown>>) {
          const at = `${path}.${String(f['name'])}`
          if (typeof f['doc'] !== 'string') here.push(`${at}: no doc`)
          if (!/^[a-z][a-z0-9_]*$/.test(String(f['name']))) here.push(`${at}: not snake_case`)
          if (Array.isArray(f['type']) && f['default'] !== null)
            here.push(`${at}: union without a null default`)
          here.push(...visit(f['type'], at))
        }
        return here
      }
      return [...here, ...visit(schema['items'], path)]
    }
    assert.deepStrictEqual(
      SCHEMAS.flatMap(({ name, schema }) => visit(schema, name)),
      [],
    )
  })
})

describe('a reader with an older schema', () => {
  it('reads a newer symbol as unknown', () => {
    const [older, newer] = SCHEMAS.filter(({ name }) => name === 'SubscriptionChanged').map(({ schema }) =>
      avro.Type.forSchema(schema as avro.Schema),
    )
    assert.isDefined(older)
    assert.isDefined(newer)
    const change = { account: 'a', mode: 'live', subscription: 's', change: 'updated', at: 1 }
    assert.deepStrictEqual(
      { ...older.fromBuffer(newer.toBuffer(change), older.createResolver(newer)) },
      { ...change, change: 'unknown' },
    )
  })
})

describe('schemaProblems', () => {
  const says = (versions: ReadonlyArray<SchemaVersion>, pattern: RegExp) => {
    const problems = schemaProblems(versions)
    assert.strictEqual(problems.length, 1, problems.join('\n'))
    assert.match(problems[0]!, pattern)
  }

  it('accepts a new field with a default', () => {
    const version = next(latest('MessageSent'), (fields) =>
      fields.push({ name: 'route', type: ['null', 'string'], default: null, doc: 'x' }),
    )
    assert.deepStrictEqual(schemaProblems([...SCHEMAS, version]), [])
  })

  it('accepts a change of the documentation, but no other change of a published version', () => {
    const published = latest('MessageSeen')
    const schema = structuredClone(published.schema) as {
      doc: string
      fields: Array<Record<string, unknown>>
    }
    schema.doc = 'Other words.'
    assert.deepStrictEqual(schemaProblems([{ ...published, schema: schema as unknown as AvroSchema }]), [])
    field(schema.fields, 'at')['type'] = 'double'
    says(
      [{ ...published, schema: schema as unknown as AvroSchema }],
      /MessageSeen version 1 .* has changed since/,
    )
  })

  it('names the fingerprint to enter where a version has none yet', () => {
    const version = next(latest('MessageSeen'), () => {})
    const wanted = new RegExp(
      `MessageSeen version 2 has no fingerprint yet; enter ${version.fingerprint}`,
      'u',
    )
    says([...SCHEMAS, { ...version, fingerprint: '' }], wanted)
  })

  it('reports a new field without a default', () => {
    const version = next(latest('MessageSeen'), (fields) =>
      fields.push({ name: 'route', type: 'string', doc: 'x' }),
    )
    says([...SCHEMAS, version], /MessageSeen version 2 cannot read version 1/)
  })

  it('reports a changed field type', () => {
    const version = next(latest('ShardOpened'), (fields) => (field(fields, 'epoch')['type'] = 'string'))
    says([...SCHEMAS, version], /ShardOpened version 2 cannot read version 1/)
  })

  it('is transitive: a version must be able to read the first version too', () => {
    const first = latest('MessageSeen')
    const second = next(first, (fields) =>
      fields.push({ name: 'device', type: 'string', default: '', doc: 'x' }),
    )
    const third = {
      ...next(second, (fields) => delete field(fields, 'device')['default']),
      id: 9001,
    }
    says([...SCHEMAS, second, third], /MessageSeen version 3 cannot read version 1/)
  })

  it('reports a repeated id, a missing version, and a record with another name', () => {
    const seen = latest('MessageSeen')
    says([seen, { ...latest('MessageDelivered'), id: seen.id }], /has the id 9 of MessageSeen version 1/)
    says([{ ...seen, version: 2 }], /should be version 1/)
    says([{ ...seen, name: 'MessageRead' }], /describes hub.MessageSeen/)
  })
})

describe('publicationProblems', () => {
  const seen = latest('MessageSeen')

  it('accepts a new version, and an index from its file', () => {
    const added = next(seen, (fields) =>
      fields.push({ name: 'device', type: 'string', default: '', doc: 'x' }),
    )
    assert.deepStrictEqual(publicationProblems([...SCHEMAS, added], SCHEMAS), [])
    const index = { MessageSeen: [{ version: 1, id: seen.id, fingerprint: seen.fingerprint }] }
    assert.deepStrictEqual(publicationProblems([seen], publicationsOf(JSON.stringify(index))), [])
  })

  it('reports a new version whose id is not above every published id', () => {
    const [gone, ...others] = SCHEMAS
    const problems = publicationProblems(SCHEMAS, others)
    assert.strictEqual(problems.length, 1)
    assert.include(problems[0]!, `${gone!.name} version ${gone!.version} is new under id ${gone!.id}`)
  })

  it('reports a version that is missing, has another id, or has changed', () => {
    const fails = (now: ReadonlyArray<SchemaVersion>, pattern: RegExp) => {
      const problems = publicationProblems(now, [seen])
      assert.strictEqual(problems.length, 1)
      assert.match(problems[0]!, pattern)
    }
    fails([], /MessageSeen version 1 was published under id 9 and is gone/)
    fails([{ ...seen, id: 77 }], /has 77 now/)
    // The file and its fingerprint have both changed, so `schemaProblems` finds no error.
    const changed = structuredClone(seen.schema) as { fields: Array<Record<string, unknown>> }
    field(changed.fields, 'at')['type'] = 'double'
    const schema = changed as unknown as AvroSchema
    const version = { ...seen, schema, fingerprint: fingerprintOf(schema) }
    assert.deepStrictEqual(schemaProblems([version]), [])
    fails([version], /with another content; add a version instead/)
  })
})

describe('registryAnswer', () => {
  const get = (url: string) => {
    const [path, query] = url.split('?') as [string, string?]
    return registryAnswer({ method: 'GET', path, ...(query === undefined ? {} : { query }) })
  }
  const codeOf = ({ body, status }: ReturnType<typeof registryAnswer>) => [
    status,
    (body as { error_code: number }).error_code,
  ]

  it('answers the requests of a standard client', () => {
    const byId = get('/schemas/ids/5')
    assert.strictEqual(byId.status, 200)
    const { schema } = byId.body as { schema: string }
    assert.strictEqual(JSON.parse(schema).name, 'MessageDelivered')
    assert.deepStrictEqual(get('/subjects/hub.MessageDelivered/versions'), {
      status: 200,
      body: [1],
    })
    assert.deepStrictEqual(get('/subjects/hub.MessageDelivered/versions/latest'), {
      status: 200,
      body: { subject: 'hub.MessageDelivered', version: 1, id: 5, schemaType: 'AVRO', schema },
    })
    assert.deepStrictEqual(
      get('/subjects/hub.MessageDelivered/versions/1'),
      get('/subjects/hub.MessageDelivered/versions/latest?deleted=false'),
    )
    assert.include(get('/subjects').body as ReadonlyArray<string>, 'hub.EventRecorded')
  })

  it('lists the subjects with a prefix', () => {
    const listed = (prefix: string) =>
      get(`/subjects?subjectPrefix=${encodeURIComponent(prefix)}`).body as ReadonlyArray<string>
    assert.deepStrictEqual(listed('hub.MessageSe'), ['hub.MessageSent', 'hub.MessageSeen'])
    assert.deepStrictEqual(listed('MessageSe'), [])
    const all = get('/subjects').body
    assert.deepStrictEqual(listed(''), all)
    // All contexts, and the default one.
    assert.deepStrictEqual(listed(':*:'), all)
    assert.deepStrictEqual(listed(':.:hub.MessageSe'), ['hub.MessageSent', 'hub.MessageSeen'])
    assert.deepStrictEqual(listed(':.other:'), [])
  })

  it('tells its settings', () => {
    const compatibility = { status: 200 as const, body: { compatibilityLevel: 'BACKWARD_TRANSITIVE' } }
    const mode = { status: 200 as const, body: { mode: 'READONLY' } }
    for (const subject of ['', '/hub.MessageSent', '/none?defaultToGlobal=true']) {
      assert.deepStrictEqual(get(`/config${subject}`), compatibility)
      assert.deepStrictEqual(get(`/mode${subject}`), mode)
    }
    assert.deepStrictEqual(codeOf(get('/config/none')), [404, 40408])
    assert.deepStrictEqual(codeOf(get('/mode/none?defaultToGlobal=false')), [404, 40409])
    assert.deepStrictEqual(codeOf(get('/config/%')), [404, 40401])
    assert.deepStrictEqual(get('/schemas/types'), { status: 200, body: ['AVRO'] })
    assert.deepStrictEqual(get('/contexts'), { status: 200, body: ['.'] })
  })

  it('tells the subject and the version of an id', () => {
    // The forms are those of the API reference of Confluent's registry: GET /schemas/ids/{id}/versions and /subjects.
    const subject = 'hub.HandoverStarted'
    assert.deepStrictEqual(get('/schemas/ids/23/versions'), { status: 200, body: [{ subject, version: 2 }] })
    assert.deepStrictEqual(get('/schemas/ids/23/subjects'), { status: 200, body: [subject] })
    assert.deepStrictEqual(get('/schemas/ids/28/subjects').body, ['hub.message-outcomes.v1-value'])
    assert.deepStrictEqual(codeOf(get('/schemas/ids/99/versions')), [404, 40403])
    assert.deepStrictEqual(codeOf(get('/schemas/ids/23/versions/2')), [404, 404])
  })

  describe('a check of compatibility', () => {
    const check = (path: string, schema: unknown, more: Readonly<Record<string, unknown>> = {}) => {
      const [name, query] = path.split('?') as [string, string?]
      return registryAnswer({
        method: 'POST',
        path: `/compatibility/subjects/${name}`,
        ...(query === undefined ? {} : { query }),
        body: JSON.stringify({ schema: JSON.stringify(schema), ...more }),
      })
    }
    const answerOf = (path: string, schema: unknown) => check(path, schema).body
    const sent = latest('MessageSent').schema as { readonly fields: ReadonlyArray<Record<string, unknown>> }
    /** The rule is that of the specification of Avro: a field without a default must be in what was written. */
    const withField = (added: Readonly<Record<string, unknown>>) => ({
      ...sent,
      fields: [...sent.fields, { name: 'added', type: 'string', ...added }],
    })

    it('says whether a schema can read a version, or all of a subject', () => {
      for (const version of ['1', '2', 'latest']) {
        const path = `hub.MessageSent/versions/${version}`
        assert.deepStrictEqual(answerOf(path, sent), { is_compatible: true })
        assert.deepStrictEqual(answerOf(path, withField({ default: '' })), { is_compatible: true })
        assert.deepStrictEqual(answerOf(path, withField({})), { is_compatible: false })
      }
      assert.deepStrictEqual(answerOf('hub.MessageSent/versions', withField({})), { is_compatible: false })
      assert.deepStrictEqual(answerOf('none/versions', 'string'), { is_compatible: true })
    })

    it('gives the reasons with `verbose`', () => {
      const { body } = check('hub.MessageSent/versions?verbose=true', withField({}))
      const { messages } = body as { messages: ReadonlyArray<string> }
      assert.strictEqual(messages.length, 2)
      for (const message of messages) assert.match(message, /version \d: .*added/u)
      assert.deepStrictEqual(check('hub.MessageSent/versions/1?verbose=true', sent).body, {
        is_compatible: true,
        messages: [],
      })
    })

    it('answers what it cannot check with the error codes of a real registry', () => {
      const at = 'hub.MessageSent/versions/1'
      assert.deepStrictEqual(codeOf(check('none/versions/1', sent)), [404, 40401])
      assert.deepStrictEqual(codeOf(check('%/versions/1', sent)), [404, 40401])
      assert.deepStrictEqual(codeOf(check('hub.MessageSent/versions/9', sent)), [404, 40402])
      assert.deepStrictEqual(codeOf(check('hub.MessageSent/versions/x', sent)), [422, 42202])
      assert.deepStrictEqual(codeOf(check('hub.MessageSent/versions/1/more', sent)), [404, 404])
      assert.deepStrictEqual(codeOf(check('hub.MessageSent/nothing', sent)), [404, 404])
      assert.deepStrictEqual(codeOf(check(at, { type: 'nothing' })), [422, 42201])
      assert.deepStrictEqual(codeOf(check(at, sent, { schemaType: 'PROTOBUF' })), [422, 42201])
      const path = `/compatibility/subjects/${at}`
      for (const body of ['', '{', 'null', '{}', '{"schema":1}', '{"schema":"{"}']) {
        assert.deepStrictEqual(codeOf(registryAnswer({ method: 'POST', path, body })), [422, 42201], body)
      }
    })

    it('refuses a schema whose check would take long', () => {
      const deep = Array.from({ length: 40 }).reduce((items) => ({ type: 'array', items }), 'string')
      const many = Array.from({ length: 64 }, (_, i) => ({ type: 'fixed', name: `f${i}`, size: 1 }))
      for (const schema of [deep, many]) {
        assert.deepStrictEqual(codeOf(check('hub.MessageSent/versions/1', schema)), [422, 42201])
      }
    })

    it('accepts every schema of the hub with ten more fields', () => {
      const more = Array.from({ length: 10 }, (_, i) => ({
        name: `more_${i}`,
        type: ['null', 'string'],
        default: null,
      }))
      for (const { name, schema, version } of SCHEMAS) {
        const { fields } = schema as { readonly fields: ReadonlyArray<unknown> }
        const longer = { ...(schema as object), fields: [...fields, ...more] }
        const { body } = check(`${subjectOf(name)}/versions/${version}`, longer)
        assert.deepStrictEqual(body, { is_compatible: true }, `${name} ${version}`)
      }
    })

    it('compiles a published version once', () => {
      const versions = new Set<unknown>(
        SCHEMAS.filter(({ name }) => name === 'MessageSent').map(({ schema }) => schema),
      )
      const forSchema = vi.spyOn(avro.Type, 'forSchema')
      try {
        answerOf('hub.MessageSent/versions', sent)
        forSchema.mockClear()
        assert.deepStrictEqual(answerOf('hub.MessageSent/versions', sent), { is_compatible: true })
        assert.isAbove(forSchema.mock.calls.length, 0)
        assert.isEmpty(forSchema.mock.calls.filter(([schema]) => versions.has(schema)))
      } finally {
        forSchema.mockRestore()
      }
    })
  })

  it('refuses every change as a registry in the mode READONLY does', () => {
    for (const [method, path] of [
      ['POST', '/subjects/hub.MessageSent/versions'],
      ['DELETE', '/subjects/hub.MessageSent'],
      ['PUT', '/config'],
      ['PUT', '/mode/hub.MessageSent'],
    ] as const) {
      assert.deepStrictEqual(codeOf(registryAnswer({ method, path })), [422, 42205])
    }
  })

  it('answers with the error codes of a real registry', () => {
    const code = (path: string) => codeOf(get(path))
    assert.deepStrictEqual(code('/schemas/ids/99'), [404, 40403])
    assert.deepStrictEqual(code('/schemas/ids/x'), [404, 40403])
    assert.deepStrictEqual(code('/subjects/none/versions'), [404, 40401])
    assert.deepStrictEqual(code('/subjects/none/versions/1'), [404, 40401])
    assert.deepStrictEqual(code('/subjects/%/versions/1'), [404, 40401])
    assert.deepStrictEqual(code('/subjects/hub.MessageDelivered/versions/2'), [404, 40402])
    assert.deepStrictEqual(code('/subjects/hub.MessageDelivered/versions/0'), [422, 42202])
    assert.deepStrictEqual(code('/subjects/hub.MessageDelivered/versions/newest'), [422, 42202])
    assert.deepStrictEqual(code('/subjects/hub.MessageDelivered/versions/1/schema'), [404, 404])
    assert.deepStrictEqual(code('/config/hub.MessageDelivered/more'), [404, 404])
    assert.deepStrictEqual(code('/contexts/more'), [404, 404])
    assert.deepStrictEqual(code('/'), [404, 404])
  })
})
