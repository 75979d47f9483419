import { assert, describe, it } from '@effect/vitest'
import { encodeRecord } from './codec.ts'
import { NEWEST_SCHEMA, newerSchemaOf } from './newer-schema.ts'
import { SCHEMAS } from '../schemas/schemas.ts'

const recordWithId = (id: number, magic = 0): Uint8Array => {
  const bytes = Buffer.alloc(8, 1)
  bytes[0] = magic
  bytes.writeInt32BE(id, 1)
  return bytes
}

describe('newerSchemaOf', () => {
  it('returns an id above every known schema', () => {
    assert.strictEqual(newerSchemaOf(recordWithId(NEWEST_SCHEMA + 1)), NEWEST_SCHEMA + 1)
    for (const { id } of SCHEMAS) assert.isNull(newerSchemaOf(recordWithId(id)))
    assert.isNull(
      newerSchemaOf(encodeRecord({ type: 'ShardOpened', shard: 1, epoch: 1, member: 'm', at: 1 })),
    )
  })

  it('returns null for other records that cannot be decoded', () => {
    for (const id of [NEWEST_SCHEMA + 1000, 65_535, -1]) assert.isNull(newerSchemaOf(recordWithId(id)))
    assert.isNull(newerSchemaOf(recordWithId(NEWEST_SCHEMA + 1, 1)))
    assert.isNull(newerSchemaOf(recordWithId(NEWEST_SCHEMA + 1).subarray(0, 4)))
    assert.isNull(newerSchemaOf(new Uint8Array()))
  })

  it('reads bytes that are part of a larger buffer', () => {
    const around = Buffer.concat([Buffer.alloc(3, 7), recordWithId(NEWEST_SCHEMA + 2)])
    assert.strictEqual(newerSchemaOf(around.subarray(3)), NEWEST_SCHEMA + 2)
  })
})
