import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

it('the generated types match openapi.json', () => {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url))
  const recorded = /sha256 of openapi\.json: (?<hash>[0-9a-f]{64})/u.exec(read('./contract.ts').toString())
    ?.groups?.['hash']
  const hash = createHash('sha256').update(read('../../contract/openapi.json')).digest('hex')
  expect(recorded, 'The description has changed. Run: npm run generate').toBe(hash)
})
