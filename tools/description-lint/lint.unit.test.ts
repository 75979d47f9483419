import { descriptionText } from '@hub/contract'
import { operationsDescriptionText } from '@hub/operations-api'
import { assert, describe, it } from 'vitest'
import { faultsOf } from './lint.ts'

/** A description that a test changes. */
// oxlint-disable-next-line typescript/no-explicit-any
type Changeable = Record<string, any>

describe('the descriptions of both APIs', () => {
  // Rules: VER-1
  it('have no fault', async () => {
    assert.deepStrictEqual(await faultsOf(descriptionText()), [])
    assert.deepStrictEqual(await faultsOf(operationsDescriptionText()), [])
  })

  const read = (api: Changeable) => api['paths']['/v1/messages/{id}'].get
  it.each<[string, string, (api: Changeable) => unknown]>([
    ['an answer has no description', 'struct', (api) => delete read(api).responses['200'].description],
    ['a reference leads nowhere', 'no-unresolved-refs', (api) => delete api['components'].schemas.Message],
    [
      'an operationId is used twice',
      'operation-operationId-unique',
      (api) => (read(api).operationId = 'messages.send'),
    ],
    ['a path parameter is missing', 'path-parameters-defined', (api) => (read(api).parameters = [])],
    [
      'an example does not fit its schema',
      'no-invalid-schema-examples',
      (api) => (api['components'].schemas.Money.properties.amount.examples = [12]),
    ],
    ['an operation has no security', 'security-defined', (api) => delete read(api).security],
  ])('would have a fault if %s', async (_, rule, change) => {
    const api = JSON.parse(descriptionText()) as Changeable
    change(api)
    const faults = await faultsOf(JSON.stringify(api))
    assert.isTrue(
      faults.some((fault) => fault.startsWith(`${rule}: `)),
      faults.slice(0, 5).join('\n'),
    )
  })
})
