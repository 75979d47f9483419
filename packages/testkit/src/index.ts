export {
  type CertificateAuthority,
  makeCertificateAuthority,
  type ServerCertificate,
} from './certificates.ts'
export { answering, type Received, type Respond, tlsReceiver, type TlsReceiver } from './tls-receiver.ts'
