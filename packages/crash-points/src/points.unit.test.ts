/** The list of crash points, compared with the code. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CRASH_POINTS } from './points.ts'

const ROOT = join(import.meta.dirname, '../../..')

describe('the list of crash points', () => {
  it('contains exactly the points of the code, each at one place', () => {
    const sources = globSync('{apps,packages}/*/src/**/*.ts', { cwd: ROOT })
      .filter((path) => !path.endsWith('.test.ts') && !path.endsWith('crash-points/src/points.ts'))
      .map((path) => readFileSync(join(ROOT, path), 'utf8'))
    const points = Object.keys(CRASH_POINTS)
    const quoted = sources.flatMap((source) => points.filter((point) => source.includes(`'${point}'`)))
    expect(quoted.toSorted()).toEqual(points.toSorted())
    expect(points.length).toBeGreaterThanOrEqual(40)
  })
})
