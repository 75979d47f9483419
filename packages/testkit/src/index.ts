/** What tests across processes need: hubs and stacks of their own, room on the shared servers, patience with a bound. */
export {
  type CertificateAuthority,
  makeCertificateAuthority,
  type ServerCertificate,
} from './certificates.ts'
export { answering, type Received, type Respond, tlsReceiver, type TlsReceiver } from './tls-receiver.ts'
export { type SecuredKafka, startSecuredKafka } from './secured-kafka.ts'
export { type Door, doorTo } from './door.ts'
export { eventually, type EventuallyOptions } from './eventually.ts'
export {
  type Consumer,
  type Instance,
  type ProcessHandle,
  type ServerName,
  startHub,
  startStack,
  type TestHub,
  type TestHubOptions,
  type TestStack,
} from './hub.ts'
export {
  freshDatabase,
  type FreshDatabase,
  openDatabase,
  testBrokers,
  testDatabaseUrl,
  testRedisUrl,
  topicPrefix,
} from './servers.ts'
