import { describe, expect, it } from 'vitest'
import { additive, breaking } from './document.ts'
import { outcomeOf } from './outcome.ts'

const additions = Array.from({ length: 199 }, (_, n) => additive('field-added', `GET /v1/things → .f${n}`))
const outcome = (...breaks: ReadonlyArray<string>) =>
  outcomeOf({
    folder: 'packages/contract',
    changes: [...additions, ...breaks.map((where) => breaking('field-removed', where))],
    sinceCommit: breaks.map((where) => breaking('field-removed', where)),
    isStale: false,
  })

describe('the outcome of the gate', () => {
  it('tells additions as a count in one line', () => {
    const { errors, note } = outcome()
    expect(note).toBe('199 additive change(s), allowed, in packages/contract since the accepted baseline.')
    expect(errors).toEqual([])
  })

  it('has each breaking change once in its errors, and no addition', () => {
    expect(outcome('GET /v1/things → .a', 'GET /v1/things → .b').errors).toEqual([
      '2 breaking change(s) in packages/contract. Restore the previous definition, or add a new path version.\n' +
        '  field-removed: GET /v1/things → .a\n  field-removed: GET /v1/things → .b',
    ])
  })
})
