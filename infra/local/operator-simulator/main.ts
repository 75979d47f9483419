/** The operator simulator as a process. README.md says what it speaks and how it is configured. */
import type { Server } from 'node:net'
import { makeOperator } from './operator.ts'
import { runReporter } from './reporter.ts'
import { makeServer } from './server.ts'
import { type Centre, makeCentre } from './smpp/centre.ts'

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

const listen = (server: Server, on: number): void => {
  server.once('error', (error) => {
    console.error(`The operator simulator cannot listen on port ${on}: ${error.message}`)
    process.exit(1)
  })
  server.listen(on, '127.0.0.1')
}

const ending = new AbortController()
const { signal } = ending
let centre: Centre | null = null
if (smppPort !== '') {
  centre = makeCentre(operator, {
    systemId: required('HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID'),
    password: required('HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD'),
  })
  listen(centre.server, Number(smppPort))
}
const server = makeServer(operator, secret, centre)
listen(server, port)
const running = Promise.all([runReporter({ operator, callbackUrl, secret, signal }), centre?.run(signal)])

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
