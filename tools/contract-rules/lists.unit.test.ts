/** Lists in the rules and on the sandbox page: they are those of the domain and of the API description. */
import { readFileSync } from 'node:fs'
import { decodeMessagesQuery, description } from '@hub/contract'
import {
  EVENT_TYPES,
  EXPIRED_REASONS,
  REJECTED_REASONS,
  SANDBOX_SCENARIOS,
  UNDELIVERED_REASONS,
} from '@hub/domain'
import { Result } from 'effect'
import { describe, expect, it } from 'vitest'
import { rulesIn } from './rules.ts'

const page = (name: string): string => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8')

/** What a rule quotes. Its text goes on in the indented lines below the item. */
const quotedBy = (file: string, number: string): ReadonlyArray<string> => {
  const text = page(`contract/${file}`).replaceAll(/\n {2}/gu, ' ')
  const rule = rulesIn({ file, text }).rules.find((one) => one.number === number)
  if (rule === undefined) throw new Error(`${file} has no ${number}`)
  return [...rule.text.matchAll(/`([^`]+)`/gu)].map(([, quoted]) => quoted ?? '')
}

describe('the lists of the rules', () => {
  it.each([
    ['MSG-27', 'undelivered', UNDELIVERED_REASONS],
    ['MSG-28', 'rejected', REJECTED_REASONS],
    ['MSG-29', 'expired', EXPIRED_REASONS],
  ])('%s names the reason codes of %s', (number, status, reasons) => {
    expect(new Set(quotedBy('messages.md', number))).toEqual(new Set([status, ...reasons]))
  })

  it.each([
    ['undelivered', UNDELIVERED_REASONS],
    ['rejected', REJECTED_REASONS],
  ])('the page of the operator simulator names the reasons of %s in reports', (status, reasons) => {
    const simulator = page('../infra/local/operator-simulator/README.md')
    // The table with these columns is that of the reports.
    const table = /^\| `status` +\| `reason` +\|$[^]*?\n\n/mu.exec(simulator)?.[0] ?? ''
    const row = table.split('\n').find((line) => line.startsWith(`| \`${status}\``)) ?? ''
    const quoted = [...row.matchAll(/`(\w+)`/gu)].map(([, code]) => code)
    expect(quoted).toEqual([status, ...reasons])
  })

  it('EVT-2 names the types of events', () => {
    // `.sent` repeats the first part of the type before it.
    let subject = ''
    const types = quotedBy('events.md', 'EVT-2').map((quoted) => {
      const [first, second] = quoted.split('.')
      if (first !== '') subject = first ?? ''
      return `${subject}.${second}`
    })
    expect(types.toSorted()).toEqual(EVENT_TYPES.toSorted())
  })

  it('MSG-37 names the filters of the messages, and each is one for the hub', () => {
    const { paths } = JSON.parse(JSON.stringify(description()))
    const parameters: ReadonlyArray<{ readonly in: string; readonly name: string }> =
      paths['/v1/messages'].get.parameters
    const others = ['limit', 'starting_after', 'batch', 'client_ref']
    const filters = parameters.filter((one) => one.in === 'query' && !others.includes(one.name))
    const names = filters.map(({ name }) => name)
    expect(new Set(quotedBy('messages.md', 'MSG-37'))).toEqual(new Set(names))
    // The text of the operation, and the guide of clients.
    const guide = page('integrating.md')
    for (const name of names) {
      expect(paths['/v1/messages'].get.description).toContain(`\`${name}\``)
      expect(guide).toContain(`\`${name}\``)
      // MSG-40: a filter cannot be combined with a batch.
      const decoded = decodeMessagesQuery(new URLSearchParams({ batch: 'bat_1', [name]: 'a' }))
      expect(Result.isFailure(decoded) ? decoded.failure : decoded, name).toMatchObject({ param: name })
    }
  })

  it('the rules and the page of the sandbox name each of its numbers', () => {
    const numbers = SANDBOX_SCENARIOS.map((_, index) => `+790000000${String(index + 1).padStart(2, '0')}`)
    const rows = page('sandbox.md').matchAll(/^\| (\+\d+) /gmu)
    expect([...rows].map(([, number]) => number)).toEqual(numbers)
    // `…03` stands for the number with these last digits.
    const rules = page('contract/sandbox.md').matchAll(/`(?:\+790000000|…)(\d\d)`/gu)
    expect(new Set([...rules].map(([, end]) => `+790000000${end}`))).toEqual(new Set(numbers))
  })
})
