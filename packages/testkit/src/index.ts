/**
 * Fixtures for tests of packages and apps: databases on the shared test servers, a proxy with the
 * faults of a network, a host name that moves, an HTTPS receiver, certificates, free ports, and
 * waiting with a bound. `test/support/hub.ts` starts whole hubs.
 */
export { ANSWERED_WITHIN_MS } from './answer-time.ts'
export { type FaultProxy, faultProxy, SILENT_FAULTS } from './fault-proxy.ts'
export {
  type CertificateAuthority,
  makeAuthorityFor,
  makeCertificateAuthority,
  type ServerCertificate,
} from './certificates.ts'
export { eventually } from './eventually.ts'
export { accepts, freePort, isFree, reservePort } from './free-port.ts'
export { startIdentityProvider, type TestIdentityProvider } from './identity-provider.ts'
export { type MovableHost, movableHost } from './movable-host.ts'
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
