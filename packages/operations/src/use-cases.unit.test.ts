/** Rules about all use cases together. */
import { Schema } from 'effect'
import { assert, describe, it } from 'vitest'
import * as Operations from './index.ts'
import { PERMISSION_NAMES } from './permission.ts'
import type { UseCase } from './use-case.ts'

type AnyUseCase = Pick<
  UseCase<unknown, unknown, unknown, unknown>,
  'name' | 'permission' | 'audit' | 'reason' | 'counts' | 'input' | 'output'
>

const isUseCase = (value: unknown): value is AnyUseCase =>
  typeof value === 'object' && value !== null && 'permission' in value && 'run' in value && 'name' in value

/** Each exported use case, by its place. */
const all = Object.entries(Operations).flatMap(([name, exported]): ReadonlyArray<[string, AnyUseCase]> => {
  if (isUseCase(exported)) return [[name, exported]]
  if (typeof exported !== 'object') return []
  return Object.entries(exported).flatMap(([key, value]): ReadonlyArray<[string, AnyUseCase]> =>
    isUseCase(value) ? [[`${name}.${key}`, value]] : [],
  )
})

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
