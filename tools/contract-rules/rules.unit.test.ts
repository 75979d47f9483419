import { describe, expect, it } from 'vitest'
import { checksIn, faultsOf, rulesIn } from './rules.ts'

const rulesOf = (text: string) => rulesIn({ file: 'page.md', text })
const checksOf = (text: string) => checksIn({ file: 'x.test.ts', text })

const page = '# Fish\n\n- **FISH-1** Swims.\n  Also at night.\n- **FISH-2** Sleeps.\n'

describe('the rules of a page', () => {
  it('are its numbered items', () => {
    expect(rulesOf(page)).toEqual({
      rules: [
        { number: 'FISH-1', at: 'page.md:3', text: 'Swims.' },
        { number: 'FISH-2', at: 'page.md:5', text: 'Sleeps.' },
      ],
      faults: [],
    })
  })

  it('need a number and one prefix', () => {
    expect(rulesOf('- Swims.\n').faults).toEqual(['page.md:1: an item without a number'])
    expect(rulesOf('- **FISH-1** Swims.\n- **BIRD-1** Flies.\n').faults).toEqual([
      'page.md: more than one prefix: FISH, BIRD',
    ])
  })
})

describe('the checks of a test file', () => {
  it('have the title of the test below the comment', () => {
    const { checks, faults } = checksOf(
      [
        '// Rules: FISH-1, FISH-2',
        "it('swims', () => {})",
        '  // Rules: FISH-1',
        '  // It swims in tests, too.',
        '  it.effect(',
        "    'sleeps',",
        '    () => {},',
        '  )',
        '// Rules: FISH-2',
        'it.each([',
        "  ['salt', 1],",
        "])('lives in %s', () => {})",
      ].join('\n'),
    )
    expect(faults).toEqual([])
    expect(checks).toEqual([
      { rule: 'FISH-1', at: 'x.test.ts:2', title: 'swims' },
      { rule: 'FISH-2', at: 'x.test.ts:2', title: 'swims' },
      { rule: 'FISH-1', at: 'x.test.ts:5', title: 'sleeps' },
      { rule: 'FISH-2', at: 'x.test.ts:10', title: 'lives in %s' },
    ])
  })

  it('are directly above a test, and a list of numbers', () => {
    expect(checksOf('// Rules: FISH-1\nconst fish = 1').faults).toEqual(['x.test.ts:1: not above a test'])
    expect(checksOf("// Rules: FISH-1 FISH-2\nit('swims', () => {})").faults).toEqual([
      'x.test.ts:1: not a list of numbers',
    ])
  })
})

describe('the faults of all together', () => {
  const { rules } = rulesOf(page)
  const { checks } = checksOf("// Rules: FISH-1, FISH-2\nit('swims', () => {})")

  it('are none if each rule has a test and each cited number exists', () => {
    expect(
      faultsOf(rules, checks, [{ file: 'a.ts', text: '// Source: FISH-2, and UTF-8 of another kind.' }]),
    ).toEqual([])
  })

  it('are a rule without a test, a number that occurs twice, and a number that does not exist', () => {
    expect(faultsOf(rules, checks.slice(0, 1), [])).toEqual(['page.md:5: no test names FISH-2'])
    expect(faultsOf([...rules, { number: 'FISH-1', at: 'b.md:1', text: 'Dives.' }], checks, [])).toEqual([
      'b.md:1: FISH-1 is also at page.md:3',
    ])
    expect(faultsOf(rules, checks, [{ file: 'a.ts', text: '\n// Source: FISH-3.' }])).toEqual([
      'a.ts:2: there is no rule FISH-3',
    ])
  })
})
