import { Effect, Result, Schema } from 'effect'
import { assert, describe, it } from 'vitest'
import { decodeCursor, pageOf } from './pages.ts'

const Key = Schema.Tuple([Schema.Int, Schema.String])
const decode = (cursor: string | null) => Effect.runSync(Effect.result(decodeCursor(Key, cursor)))
const page = (rows: ReadonlyArray<number>, limit: number) =>
  pageOf(
    rows,
    limit,
    (row) => `row ${row}`,
    (row) => [row, `id ${row}`],
  )

describe('a page', () => {
  it('has a cursor with the key of its last row if another page follows', () => {
    const { data, next_cursor } = page([1, 2, 3], 2)
    assert.deepStrictEqual(data, ['row 1', 'row 2'])
    assert.deepStrictEqual(decode(next_cursor), Result.succeed([2, 'id 2'] as const))
  })

  it('has no cursor if it is the last one', () => {
    assert.isNull(page([1, 2], 2).next_cursor)
    assert.isNull(page([], 2).next_cursor)
    assert.deepStrictEqual(decode(null), Result.succeed(null))
  })

  it.each(['', 'x', Buffer.from('[1]').toString('base64url'), Buffer.from('["1", 2]').toString('base64url')])(
    'refuses a cursor of another list: %j',
    (cursor) => {
      const decoded = decode(cursor)
      assert.include(Result.isFailure(decoded) ? decoded.failure : {}, {
        code: 'cursor_invalid',
        param: 'cursor',
      })
    },
  )
})
