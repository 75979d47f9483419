import { assert, describe, it } from 'vitest'
import { fieldText, settingChanges, settingNames } from './setting-changes.ts'

const LIVE = {
  mode: 'live',
  in_force: { api_rps: 50, batch_max: 1000, spend_limit: '150000.00', price_otp: '3.00', weight: 1 },
  overridden: ['batch_max', 'spend_limit'],
}

const changes = (fields: Readonly<Record<string, string>>, settings = LIVE) =>
  settingChanges(settings, (name) => fields[name] ?? fieldText(settings, name))

describe('the changes of settings', () => {
  it('are nothing if no field is changed', () => {
    assert.deepStrictEqual(changes({}), {})
  })

  it('have the type of the setting, and amounts have two decimals', () => {
    assert.deepStrictEqual(changes({ api_rps: '500', price_otp: '2.50', spend_limit: '90000' }), {
      api_rps: 500,
      spend_limit: '90000.00',
      price_otp: '2.50',
    })
  })

  it('restore the default of an emptied field', () => {
    assert.deepStrictEqual(changes({ batch_max: ' ' }), { batch_max: null })
  })

  it('leave text that is no number to the API, which refuses it', () => {
    assert.isNaN(changes({ api_rps: 'many' })['api_rps'])
  })

  it('contain no spend limit in test mode', () => {
    assert.notInclude(settingNames({ ...LIVE, mode: 'test' }), 'spend_limit')
  })
})
