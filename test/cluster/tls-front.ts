/**
 * Ends TLS in front of a server on this machine that has none.
 *
 *   node tls-front.ts <certificate> <key> <address> <port> <port of the server>
 *
 * SIGHUP makes it read the certificate again.
 */
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createServer } from 'node:tls'

const [cert = '', key = '', host = '', port = '', target = ''] = process.argv.slice(2)
const read = () => ({ cert: readFileSync(cert), key: readFileSync(key) })

const server = createServer(read(), (outside) => {
  const inside = connect(Number(target), '127.0.0.1')
  for (const [one, other] of [
    [outside, inside],
    [inside, outside],
  ] as const) {
    one.pipe(other)
    one.on('error', () => other.destroy())
    one.on('close', () => other.destroy())
  }
})
server.on('tlsClientError', () => {})
process.on('SIGHUP', () => server.setSecureContext(read()))
process.on('SIGTERM', () => process.exit(0))
server.listen(Number(port), host)
