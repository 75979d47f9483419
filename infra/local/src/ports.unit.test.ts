import { describe, expect, it } from 'vitest'
import { freePortBase, PORT_NAMES, PORT_PLAN, PORT_SPAN, portsAt } from './ports.ts'
import { UserError } from './user-error.ts'

describe('the port plan', () => {
  it('gives each listener its own port within the span', () => {
    const offsets = PORT_NAMES.map((name) => PORT_PLAN[name].offset)
    expect(new Set(offsets).size).toBe(offsets.length)
    expect(Math.min(...offsets)).toBe(0)
    expect(Math.max(...offsets)).toBeLessThan(PORT_SPAN)
  })

  it('shares no port between two hubs whose bases differ by the span', () => {
    const one = new Set(Object.values(portsAt(7300)))
    const other = Object.values(portsAt(7300 + PORT_SPAN))
    expect(other.filter((port) => one.has(port))).toEqual([])
  })

  it.each([1023, 65_507, 7300.5, Number.NaN])('refuses the base %s', (base) => {
    expect(() => portsAt(base)).toThrow(UserError)
  })

  it('accepts the highest base', () => {
    expect(Math.max(...Object.values(portsAt(65_506)))).toBeLessThanOrEqual(65_535)
  })
})

describe('the ports for tests', () => {
  it('are other ones in each call', async () => {
    const bases = await Promise.all(Array.from({ length: 20 }, freePortBase))
    expect(new Set(bases).size).toBe(20)
  })
})
