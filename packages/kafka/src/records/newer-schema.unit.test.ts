import { assert, describe, it } from '@effect/vitest'
import { encodeRecord } from './codec.ts'
import { NEWEST_SCHEMA, newerSchemaOf } from './newer-schema.ts'
import { SCHEMAS } from '../schemas/schemas.ts'

const headed = (id: number, magic = 0): Uint8Array => {
  const bytes = Buffer.alloc(8, 1)
  bytes[0] = magic
  bytes.writeInt32BE(id, 1)
  return bytes
}

describe('a record of a newer version of the hub', () => {
  it('has an id above every schema that is known here', () => {
    assert.strictEqual(newerSchemaOf(headed(NEWEST_SCHEMA + 1)), NEWEST_SCHEMA + 1)
    for (const { id } of SCHEMAS) assert.isNull(newerSchemaOf(headed(id)))
    assert.isNull(
      newerSchemaOf(encodeRecord({ type: 'ShardOpened', shard: 1, epoch: 1, member: 'm', at: 1 })),
    )
  })

  it('is not just anything that cannot be read', () => {
    for (const id of [NEWEST_SCHEMA + 1000, 65_535, -1]) assert.isNull(newerSchemaOf(headed(id)))
    assert.isNull(newerSchemaOf(headed(NEWEST_SCHEMA + 1, 1)))
    assert.isNull(newerSchemaOf(headed(NEWEST_SCHEMA + 1).subarray(0, 4)))
    assert.isNull(newerSchemaOf(new Uint8Array()))
  })

  it('is found where the bytes lie within others', () => {
    const around = Buffer.concat([Buffer.alloc(3, 7), headed(NEWEST_SCHEMA + 2)])
    assert.strictEqual(newerSchemaOf(around.subarray(3)), NEWEST_SCHEMA + 2)
  })
})
