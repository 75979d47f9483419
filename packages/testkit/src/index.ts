/**
 * Fixtures for tests of packages and apps: databases on the shared test servers, a proxy that can
 * be blocked, an HTTPS receiver, certificates, and waiting with a bound. Whole hubs are started by
 * `test/support/hub.ts`.
 */
export { type BlockableProxy, blockableProxy } from './blockable-proxy.ts'
export {
  type CertificateAuthority,
  makeCertificateAuthority,
  type ServerCertificate,
} from './certificates.ts'
export { eventually } from './eventually.ts'
export {
  freshDatabase,
  type FreshDatabase,
  openDatabase,
  testBrokers,
  testDatabaseUrl,
  testRedisUrl,
  topicPrefix,
} from './servers.ts'
export { type Received, statusResponse, tlsReceiver, type TlsReceiver } from './tls-receiver.ts'
