/** `hub doctor`: checks address, key, clock and webhooks. */
import { CommandFailed, defineCommand, EXIT, show, table } from '@hub/command-line'
import type { components } from '@sms-delivery-hub/client'
import { Effect } from 'effect'
import { Flag } from 'effect/cli'
import { clockProblem, connect, type Connection } from '../connection/connection.ts'
import { toFailure } from '../connection/failure.ts'

interface Check {
  readonly check: string
  readonly result: 'ok' | 'failed' | 'skipped'
  readonly detail: string
}

type Subscription = components['schemas']['WebhookEndpoint']

/** What the reasons of a failed delivery mean for the owner of a receiver. */
const REASONS: Readonly<Record<string, string>> = {
  http_status: 'the receiver did not answer 2xx',
  redirect: 'the receiver redirects, and the hub does not follow',
  timeout: 'no answer within ten seconds: answer first, and process the events afterwards',
  connection_refused: 'nothing listens at the address',
  connection_reset: 'the connection broke',
  tls_error:
    'the certificate is expired, for another name, or of an unknown authority; or the receiver refused the client certificate',
  client_certificate_expired: 'the client certificate of the subscription has expired: send a new one',
  dns_error: 'the name does not resolve',
  address_not_public: 'the name resolves to an address that is not public',
}

const ok = (check: string, detail: string): Check => ({ check, result: 'ok', detail })
const failed = (check: string, detail: string): Check => ({ check, result: 'failed', detail })

/** Has one event delivered, as the hub reaches the receiver. */
const checkWebhook = async (
  { client }: Connection,
  subscription: Subscription,
  signal: AbortSignal,
): Promise<Check> => {
  const name = `webhook ${subscription.id}`
  if (subscription.status !== 'enabled') {
    return failed(
      name,
      `${subscription.url} is disabled after failures: ${subscription.disabled_reason ?? 'unknown reason'}`,
    )
  }
  const { duration_ms, reason, response_code, status } = await client.webhookEndpoints.test(subscription.id, {
    signal,
  })
  if (status === 'succeeded')
    return ok(name, `${subscription.url} answered ${response_code} in ${duration_ms} ms`)
  const answer = response_code === null ? '' : ` (${response_code})`
  return failed(name, `${subscription.url}${answer}: ${REASONS[reason ?? ''] ?? reason ?? 'unknown reason'}`)
}

const runChecks = async (
  connection: Connection,
  withDeliveries: boolean,
  signal: AbortSignal,
): Promise<{ readonly checks: ReadonlyArray<Check>; readonly failure: CommandFailed | null }> => {
  const { baseUrl, client, mode, source } = connection
  const checks: Array<Check> = [ok('hub', `${baseUrl} (${source})`)]
  try {
    const startedAt = performance.now()
    const account = await client.account.get({ signal })
    const ms = Math.round(performance.now() - startedAt)
    checks.push(ok('key', `${mode} key of ${account.name}, answer in ${ms} ms`))
    const wrongClock = clockProblem(connection)
    const difference = Math.round(connection.clockDifferenceMs() / 1000)
    checks.push(
      wrongClock === null
        ? ok('clock', `within ${Math.abs(difference) + 1} s of that of the hub`)
        : failed('clock', wrongClock.message),
    )
    let usable = 0
    for await (const _ of client.templates.list({ status: 'approved' }, { signal })) usable += 1
    checks.push(
      usable === 0
        ? failed('templates', 'no template is approved. Create one: hub templates push')
        : ok('templates', `${usable} approved`),
    )
    let subscriptions = 0
    for await (const subscription of client.webhookEndpoints.list({}, { signal })) {
      subscriptions += 1
      if (withDeliveries) checks.push(await checkWebhook(connection, subscription, signal))
    }
    if (subscriptions === 0) {
      checks.push({
        check: 'webhooks',
        result: 'skipped',
        detail: 'the account has no subscription in this mode',
      })
    }
    return { checks, failure: null }
  } catch (error) {
    const failure = toFailure(error)
    if (failure === null || signal.aborted) throw error
    checks.push(failed(checks.length === 1 ? 'key' : 'further checks', failure.message))
    return { checks, failure }
  }
}

export const doctor = defineCommand(
  'doctor',
  {
    short: 'Check address, key, clock and webhooks',
    about:
      'Checks that the hub answers, that it accepts the key, that the clock of this machine is right, and that a ' +
      'template can be used. Then the hub delivers a test event to each subscription and reports what it got, ' +
      'so you see your receiver as the hub sees it.',
    changes: 'Each subscription gets one event webhook.test, unless you add --no-deliveries.',
    examples: [{ command: 'hub doctor' }, { command: 'hub doctor --no-deliveries --json' }],
  },
  {
    deliveries: Flag.Boolean('deliveries').pipe(
      Flag.withDescription('Have a test event delivered to each subscription (default)'),
      Flag.withDefault(true),
    ),
  },
  Effect.fnUntraced(function* ({ deliveries }) {
    const connection = yield* connect
    const { checks, failure } = yield* Effect.tryPromise({
      try: (signal) => runChecks(connection, deliveries, signal),
      catch: (error) => error,
    })
    yield* show({ object: 'list', data: checks }, () =>
      table(checks, { check: (row) => row.check, result: (row) => row.result, detail: (row) => row.detail }),
    )
    if (failure !== null) return yield* failure
    const first = checks.find(({ result }) => result === 'failed')
    if (first !== undefined) {
      return yield* new CommandFailed({
        code: 'check_failed',
        message: `${first.check}: ${first.detail}`,
        exit: EXIT.refused,
      })
    }
  }),
)
