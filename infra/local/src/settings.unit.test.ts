import { describe, expect, it } from 'vitest'
import { UserError } from './user-error.ts'
import { readSettings, ROOT } from './settings.ts'

describe('settings', () => {
  it('put data in the checkout and downloads in a shared cache', () => {
    const settings = readSettings({ XDG_CACHE_HOME: '/caches' })
    expect(settings.dataDir).toBe(`${ROOT}/.local`)
    expect(settings.cacheDir).toBe('/caches/sms-delivery-hub')
    expect(settings.ports.commandApi).toBe(7300)
    expect([settings.kafkaBrokers, settings.databaseUrl, settings.redisUrl]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  it('use configured servers and folders', () => {
    const settings = readSettings({
      HUB_PORT_BASE: '9000',
      HUB_DATA_DIR: '/data',
      HUB_CACHE_DIR: '/cache',
      HUB_KAFKA_BROKERS: 'one:9092, two:9092',
      HUB_DATABASE_URL: 'postgres://somewhere/hub',
      HUB_REDIS_URL: 'redis://somewhere',
    })
    expect(settings).toMatchObject({
      dataDir: '/data',
      cacheDir: '/cache',
      kafkaBrokers: ['one:9092', 'two:9092'],
      databaseUrl: 'postgres://somewhere/hub',
      redisUrl: 'redis://somewhere',
    })
    expect(settings.ports.kafka).toBe(9020)
  })

  it('treat an empty variable as unset', () => {
    expect(readSettings({ HUB_REDIS_URL: ' ', HUB_PORT_BASE: '' }).redisUrl).toBeUndefined()
  })

  it('refuse a port base that is not a number', () => {
    expect(() => readSettings({ HUB_PORT_BASE: '73oo' })).toThrow(UserError)
  })

  it('refuse the file of a secret that npm start reads itself', () => {
    expect(() => readSettings({ HUB_MASTER_KEY_FILE: '/run/secrets/key' })).toThrow(
      'npm start does not read HUB_MASTER_KEY_FILE: set HUB_MASTER_KEY, or neither of them.',
    )
    expect(
      readSettings({ HUB_MASTER_KEY_FILE: '', HUB_KAFKA_PASSWORD_FILE: '/x' }).databaseUrl,
    ).toBeUndefined()
  })

  it('select the protocol of the simulator, unless another operator is configured', () => {
    expect(readSettings({}).liveOperator).toBe('smpp')
    expect(readSettings({ HUB_LOCAL_OPERATOR: 'http' }).liveOperator).toBe('http')
    expect(readSettings({ HUB_LOCAL_OPERATOR: 'smpp' }).liveOperator).toBe('smpp')
    const own = { HUB_OPERATOR_SMPP_URL: 'smpp://us@operator.example:2775' }
    expect(readSettings(own).liveOperator).toBeNull()
    expect(() => readSettings({ ...own, HUB_LOCAL_OPERATOR: 'smpp' })).toThrow(/unset one of them/u)
    expect(() => readSettings({ HUB_LOCAL_OPERATOR: 'pigeon' })).toThrow(
      'HUB_LOCAL_OPERATOR must be smpp or http; it is "pigeon".',
    )
  })
})
