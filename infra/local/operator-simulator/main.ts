/** The operator simulator as a process. README.md says what it speaks and how it is configured. */
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

/** Listens on the loopback; answers the port, which the system has chosen where 0 was asked for. */
const listen = (server: Server, on: number): Promise<number> =>
  new Promise((resolve) => {
    server.once('error', (error) => {
      console.error(`The operator simulator cannot listen on port ${on}: ${error.message}`)
      process.exit(1)
    })
    server.listen(on, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
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

// Whoever has started it learns from this line where it listens.
console.log(
  JSON.stringify({
    smpp: smsc === null ? null : await listen(smsc.server, Number(smppPort)),
    http: await listen(server, port),
  }),
)
