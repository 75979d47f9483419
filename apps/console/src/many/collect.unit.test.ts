import { describe, expect, it } from 'vitest'
import { collect, MOST_ITEMS } from './collect.ts'

interface Row {
  readonly batch: string | null
}

const rows = (count: number, from = 0): ReadonlyArray<Row> =>
  Array.from({ length: count }, (_, i) => ({ batch: `b-${from + i}` }))

/** A list with these pages, which records what is read. */
const listOf = (pages: ReadonlyArray<ReadonlyArray<Row>>) => {
  const paths: Array<string> = []
  const read = async (path: string) => {
    paths.push(path)
    const page = paths.length - 1
    return { data: pages[page] ?? [], next_cursor: page + 1 < pages.length ? `c${page + 1}` : null }
  }
  return { paths, collected: () => collect('/v1/attempts?status=failed', ({ batch }: Row) => batch, read) }
}

describe('the dry run', () => {
  it('reads all pages of the list with its filters, and counts different items, the oldest first', async () => {
    const { collected, paths } = listOf([[...rows(2), { batch: null }], [], [...rows(1, 1), ...rows(1, 2)]])
    expect(await collected()).toEqual({ ids: ['b-2', 'b-1', 'b-0'], isCut: false })
    expect(paths).toEqual([
      '/v1/attempts?status=failed&limit=1000',
      '/v1/attempts?status=failed&limit=1000&cursor=c1',
      '/v1/attempts?status=failed&limit=1000&cursor=c2',
    ])
  })

  it('takes the newest of a long list, and says that there are more', async () => {
    const { collected, paths } = listOf([rows(600), rows(600, 600), rows(600, 1200)])
    const { ids, isCut } = await collected()
    expect([ids.length, ids.at(-1), ids[0], isCut]).toEqual([MOST_ITEMS, 'b-0', 'b-999', true])
    expect(paths).toHaveLength(2)
  })

  it('does not read for ever if the rows are no items', async () => {
    const { collected, paths } = listOf(Array.from({ length: 50 }, () => [{ batch: 'always' }]))
    expect(await collected()).toEqual({ ids: ['always'], isCut: true })
    expect(paths).toHaveLength(20)
  })

  it('of a list without pages says that there may be more if it is full', async () => {
    const full = await collect(
      '/v1/letters',
      ({ batch }: Row) => batch,
      async () => ({ data: rows(1000) }),
    )
    expect([full.ids.length, full.isCut]).toEqual([1000, true])
    const short = await collect(
      '/v1/letters',
      ({ batch }: Row) => batch,
      async () => ({ data: rows(3) }),
    )
    expect([short.ids.length, short.isCut]).toEqual([3, false])
  })
})
