/** Rules about all use cases together. */
import { Schema } from 'effect'
import { assert, describe, it } from 'vitest'
import { PERMISSION_NAMES, rolesWith } from './permission.ts'
import { allUseCases as all } from './testing/all-use-cases.ts'

/** Reads that need a permission for changes: who may request an erasure sees the open requests. */
const READS_OF_CHANGES = ['Erasures.requests']

describe('every use case', () => {
  it('is found here', () => {
    assert.isAbove(all.length, 50)
  })

  it.each(all)('%s is recorded if it changes something or reveals personal data', (place, useCase) => {
    assert.include(PERMISSION_NAMES, useCase.permission)
    if (useCase.permission.endsWith('.read') || READS_OF_CHANGES.includes(place)) return
    assert.isNotNull(useCase.audit)
  })

  it.each(all)('%s asks for a reason if it reveals personal data', (place, useCase) => {
    // A hash is no personal data, but many of them reveal numbers. So it is recorded and limited.
    if (place === 'Recipients.hash') assert.isDefined(useCase.counts)
    else if (useCase.permission === 'messages.reveal') assert.isDefined(useCase.reason)
  })

  it.each(all)('%s counts as a look-up if it reveals personal data, and is recorded then', (_, useCase) => {
    if (useCase.permission === 'messages.reveal') assert.isDefined(useCase.counts)
    if (useCase.counts !== undefined) assert.isNotNull(useCase.audit)
  })

  it.each(all)('%s is for members only if the role has its permission', (_, useCase) => {
    if (useCase.members !== undefined) assert.include(rolesWith(useCase.permission), 'member')
  })

  it('has a name that no other one has, as hubctl --api performs it by its name', () => {
    // One is exported in two places.
    const names = [...new Set(all.map(([, useCase]) => useCase))].map(({ name }) => name)
    assert.deepStrictEqual(
      names.filter((name, place) => names.indexOf(name) !== place),
      [],
    )
  })

  it.each(all)('%s has the name of its command, without flags', (_, useCase) => {
    assert.match(useCase.name, /^[a-z]+(?:-[a-z]+)*(?: [a-z]+(?:-[a-z]+)*)?$/u)
  })

  it.each(all)('%s has an input and an output that the API can describe', (_, useCase) => {
    for (const schema of [useCase.input, useCase.output]) {
      assert.isObject(Schema.toJsonSchemaDocument(schema).schema)
    }
  })
})
