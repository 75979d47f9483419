/** Each list that is read with its filters in the address has an export. */
import { exportColumns } from '@hub/operations'
import type { Schema } from 'effect'
import { assert, describe, it } from 'vitest'
import { fieldsOf } from '../http/input.ts'
import { endpoints } from './index.ts'

/** What belongs to one item, such as a timeline, is no list. */
const lists = endpoints.filter(
  ({ media, method, output, path }) =>
    method === 'GET' &&
    media === null &&
    !path.includes(':') &&
    'data' in (Reflect.get(output, 'fields') ?? {}),
)

describe('the export of a list', () => {
  it('is defined for all of them', () => {
    assert.isAbove(lists.length, 15)
  })

  it.each(lists.map((list) => [list.operation, list] as const))(
    'of %s has its filters, its roles, and columns of different names',
    (_, list) => {
      const exported = endpoints.find(({ path }) => path === `${list.path}.csv`)
      if (exported === undefined) return assert.fail('there is no export')
      assert.deepStrictEqual(exported.roles, list.roles)
      assert.deepStrictEqual(
        Object.keys(fieldsOf(exported.input)),
        Object.keys(fieldsOf(list.input)).filter((name) => name !== 'limit' && name !== 'cursor'),
      )
      const { limit: _limit, ...defaults } = list.defaults
      assert.deepStrictEqual(exported.defaults, defaults)
      const names = exportColumns(list.output as Schema.Top).map(({ name }) => name)
      assert.strictEqual(new Set(names).size, names.length)
      assert.match(exported.operation, /^[a-z_]+\.export(?:_[a-z_]+)?$/u)
    },
  )

  it('has an operation of its own name', () => {
    const names = endpoints.map(({ operation }) => operation)
    assert.strictEqual(new Set(names).size, names.length)
  })
})
