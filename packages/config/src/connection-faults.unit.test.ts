import { assert, describe, it } from 'vitest'
import { connectionFault } from './connection-faults.ts'

describe('the fault of a failed connection', () => {
  it.each([
    // SQLSTATE of PostgreSQL: invalid_password, invalid_catalog_name.
    ['StorageUnavailable', '28P01', 'HUB_DATABASE_URL', true],
    ['StorageUnavailable', '3D000', 'HUB_DATABASE_URL', true],
    // Seen with PgBouncer 1.18.
    ['StorageUnavailable', '08P01', 'HUB_DATABASE_URL', true],
    // Error codes of Redis.
    ['CountersUnavailable', 'CLUSTER', 'HUB_REDIS_URL', true],
    ['CountersUnavailable', 'SENTINEL', 'HUB_REDIS_URL', true],
    ['CountersUnavailable', 'SENTINEL_NAME', 'HUB_REDIS_URL', true],
    // Sentinels, and a primary, may be away.
    ['CountersUnavailable', 'SENTINELS_AWAY', 'HUB_REDIS_URL', false],
    ['CountersUnavailable', 'READONLY', 'HUB_REDIS_URL', false],
    ['CountersUnavailable', 'WRONGPASS', 'HUB_REDIS_URL', true],
    ['RedisUnusable', 'NOAUTH', 'HUB_REDIS_URL', true],
    // Names of errors of kafkajs, with the error code of the Kafka protocol or of Node.
    ['KafkaUnavailable', 'KafkaJSSASLAuthenticationError', 'HUB_KAFKA_PASSWORD', true],
    ['KafkaUnavailable', 'KafkaJSProtocolError SASL_AUTHENTICATION_FAILED', 'HUB_KAFKA_PASSWORD', true],
    ['KafkaRequestRejected', 'KafkaJSProtocolError TOPIC_AUTHORIZATION_FAILED', 'HUB_KAFKA_USERNAME', true],
    ['KafkaUnavailable', 'KafkaJSConnectionError SELF_SIGNED_CERT_IN_CHAIN', 'NODE_EXTRA_CA_CERTS', true],
    ['KafkaUnavailable', 'KafkaJSConnectionError ECONNREFUSED', 'HUB_KAFKA_BROKERS', false],
    // Names of errors of the tokens for Kafka, with the error code of RFC 6749 or of Node.
    ['KafkaUnavailable', 'TokenRefused invalid_client', 'HUB_KAFKA_PASSWORD', true],
    ['KafkaUnavailable', 'TokenRejected', 'HUB_KAFKA_TOKEN_URL', true],
    ['KafkaUnavailable', 'TokenUnavailable ECONNREFUSED', 'HUB_KAFKA_TOKEN_URL', false],
    ['StorageUnavailable', 'ENOTFOUND', 'HUB_DATABASE_URL', false],
    // Codes of the client of the transit engine.
    ['StorageUnavailable', 'TRANSIT_DENIED', 'HUB_TRANSIT_TOKEN', true],
    ['StorageUnavailable', 'TRANSIT_UNREACHABLE', 'HUB_TRANSIT_URL', false],
  ])('%s %s names %s', (tag, detail, setting, isRefusal) => {
    const fault = connectionFault({ _tag: tag, detail })
    assert.include(fault?.sentence, setting)
    assert.strictEqual(fault?.isRefusal, isRefusal)
  })

  it('is not known for other errors', () => {
    assert.isNull(connectionFault({ _tag: 'StorageUnavailable', detail: '40001' }))
    assert.isNull(connectionFault({ _tag: 'StorageUnavailable', detail: 'WRONGPASS' }))
    assert.isNull(connectionFault({ _tag: 'StorageUnavailable' }))
    assert.isNull(connectionFault({ _tag: 'NotOfThisHub', detail: '28P01' }))
  })
})
