/** Starts the operator simulator. README.md describes its protocols and its configuration. */
import type { AddressInfo, Server } from 'node:net'
import { makeOperator } from './operator.ts'
import { runReporter } from './reporter.ts'
import { makeServer } from './server.ts'
import { makeSmsc } from './smpp/smsc.ts'

const required = (name: string): string => {
  const value = process.env[name]
  if (value === undefined || value === '') {
    console.error(`${name} is not set.`)
    process.exit(1)
  }
  return value
}

const port = Number(required('HUB_OPERATOR_SIMULATOR_PORT'))
const secret = required('HUB_OPERATOR_HTTP_SECRET')
const callbackUrl = required('HUB_OPERATOR_CALLBACK_URL')
const operator = makeOperator(required('HUB_OPERATOR_JOURNAL'), secret)
const smppPort = process.env['HUB_OPERATOR_SIMULATOR_SMPP_PORT'] ?? ''

/** Listens on the loopback interface. Returns the port, which the system chooses for port 0. */
const listen = (server: Server, requestedPort: number): Promise<number> =>
  new Promise((resolve) => {
    server.once('error', (error) => {
      console.error(`The operator simulator cannot listen on port ${requestedPort}: ${error.message}`)
      process.exit(1)
    })
    server.listen(requestedPort, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })

const ending = new AbortController()
const { signal } = ending
const smsc =
  smppPort === ''
    ? null
    : makeSmsc(operator, {
        systemId: required('HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID'),
        password: required('HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD'),
      })
const server = makeServer(operator, secret, smsc)
const running = Promise.all([runReporter({ operator, callbackUrl, secret, signal }), smsc?.run(signal)])

const end = (): void => {
  ending.abort()
  server.close()
  server.closeAllConnections()
  void running.then(() => {
    operator.close()
    process.exit(0)
  })
}
process.once('SIGTERM', end)
process.once('SIGINT', end)

// Tells the parent process the ports.
console.log(
  JSON.stringify({
    smpp: smsc === null ? null : await listen(smsc.server, Number(smppPort)),
    http: await listen(server, port),
  }),
)
