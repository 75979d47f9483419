import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SETTING_NAMES } from '@hub/domain'
import { expect, it } from 'vitest'

const page = readFileSync(join(import.meta.dirname, '../../docs/operating.md'), 'utf8')
const section = /^## Settings of an account$[^]*?(?=^## )/mu.exec(page)?.[0] ?? ''

it('says of each setting of an account who applies it', () => {
  // A row may name several settings: `a`, `b`.
  const rows = section.split('\n').filter((line) => line.startsWith('| `'))
  const named = rows.flatMap((row) =>
    [...row.split('|')[1]!.matchAll(/`(?<name>[a-z_]+)`/gu)].map((match) => match.groups!['name']!),
  )
  expect(named.toSorted()).toEqual(SETTING_NAMES.toSorted())
})
