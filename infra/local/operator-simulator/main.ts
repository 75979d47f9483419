/** The operator simulator as a process. README.md says what it speaks and how it is configured. */
import { makeOperator } from './operator.ts'
import { runReporter } from './reporter.ts'
import { makeServer } from './server.ts'

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
const operator = makeOperator(required('HUB_OPERATOR_JOURNAL'))

const ending = new AbortController()
const server = makeServer(operator, secret)
server.once('error', (error) => {
  console.error(`The operator simulator cannot listen on port ${port}: ${error.message}`)
  process.exit(1)
})
server.listen(port, '127.0.0.1')
const reporting = runReporter({ operator, callbackUrl, secret, signal: ending.signal })

const end = (): void => {
  ending.abort()
  server.close()
  server.closeAllConnections()
  void reporting.then(() => {
    operator.close()
    process.exit(0)
  })
}
process.once('SIGTERM', end)
process.once('SIGINT', end)
