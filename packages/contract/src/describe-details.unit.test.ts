import { describe, expect, it } from 'vitest'
import { referredBy } from './describe-details.ts'
import type { JsonObject } from './json.ts'

const to = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })

describe('the schemas that a value refers to', () => {
  it('are found by each other, also in a cycle, and not in examples', () => {
    const schemas = {
      List: { type: 'array', items: to('Item') },
      Item: { type: 'object', properties: { parent: to('Item'), list: to('List') }, examples: [to('Other')] },
      Other: { type: 'string' },
    }
    expect([...referredBy([to('List')], schemas)].toSorted()).toEqual(['Item', 'List'])
  })

  it('must exist', () => {
    expect(() => referredBy(to('List'), { List: { items: to('Missing') } })).toThrow(/Missing/u)
  })
})
