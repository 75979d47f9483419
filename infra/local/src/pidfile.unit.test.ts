import { expect, it } from 'vitest'
import { parseProcStat } from './pidfile.ts'

it('the start time of a process is parsed after any program name', () => {
  const rest = ' S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 0 0'
  expect(parseProcStat(`42 (node)${rest}`)).toEqual({ state: 'S', startTicks: '987654' })
  expect(parseProcStat(`42 (a) b ((c)${rest}`)).toEqual({ state: 'S', startTicks: '987654' })
  expect(parseProcStat('42 (node) S 1')).toBeNull()
})
