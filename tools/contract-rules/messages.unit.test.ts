/** The fields that docs/contract/messages.md lists are those of the schemas. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const read = (file: string): string => readFileSync(join(import.meta.dirname, '../..', file), 'utf8')

const { schemas } = (
  JSON.parse(read('packages/contract/openapi.json')) as {
    components: { schemas: Record<string, { properties: Record<string, unknown> }> }
  }
).components

const fieldsOf = (schema: string): ReadonlyArray<string> =>
  Object.keys(schemas[schema]!.properties).toSorted()

it('names each field of a message in the rule MSG-15', () => {
  const rule = /^- \*\*MSG-15\*\* [^]*?(?=^- )/mu.exec(read('docs/contract/messages.md'))?.[0] ?? ''
  // The answer to a send, and after it what reads add.
  const [common = '', ofReads = ''] = rule.split(/;\s+reads add/u)
  const named = (text: string) =>
    [...text.matchAll(/`(?<names>[^`]*)`/gu)].flatMap((match) => match.groups!['names']!.split(/,\s*/u))
  // MSG-9 describes `duplicate`, which is not a field of the message.
  expect(named(common).toSorted()).toEqual(fieldsOf('AcceptedMessage').filter((name) => name !== 'duplicate'))
  expect([...named(common), ...named(ofReads)].toSorted()).toEqual(fieldsOf('Message'))
})
