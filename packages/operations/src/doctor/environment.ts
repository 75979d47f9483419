/** Checks of settings, processes, schemas, the operator and the webhook egress. */
import { findInvalidSettings, settings, unknownVariables } from '@hub/config'
import { SCHEMAS, subjectOf, withoutContext } from '@hub/kafka'
import { acceptsConnection } from '@hub/telemetry'
import { allowedHostsConfig, deniedNetworksConfig, makeAddressPolicy } from '@hub/webhooks'
import { Data, Effect, Result } from 'effect'
import { type Check, problem, notice, ok } from './check.ts'
import { CONNECT_TIMEOUT } from './servers.ts'

/** `names`: the names of the environment variables. */
const ownSettings = (names: ReadonlyArray<string>): Check => ({
  subject: 'settings',
  needs: [],
  mend: 'See hubctl config.',
  run: Effect.gen(function* () {
    const mistakes = yield* findInvalidSettings('hubctl', [allowedHostsConfig, deniedNetworksConfig])
    const unknown = unknownVariables(names).map(({ name, nearest }) =>
      nearest === null ? name : `${name} (perhaps ${nearest})`,
    )
    const facts = { mistakes: mistakes.map(({ message }) => message), unknown }
    if (mistakes.length > 0) {
      return problem(facts.mistakes.join(' '), 'Set them as docs/configuration.md describes.', facts)
    }
    return unknown.length === 0
      ? ok('none is wrong', facts)
      : notice(`none is wrong; unknown, without effect: ${unknown.join(', ')}`, facts)
  }),
})

/** The server is unreachable, or its answer is invalid. */
class NoAnswer extends Data.TaggedError('NoAnswer')<{ readonly detail: string }> {}

const get = (url: string): Effect.Effect<{ readonly status: number; readonly body: string }, NoAnswer> =>
  Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(url, { signal, redirect: 'manual' })
      return { status: response.status, body: await response.text() }
    },
    catch: (error) => {
      const cause = error instanceof Error ? error.cause : undefined
      const code =
        typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : 'no answer'
      return new NoAnswer({ detail: `${new URL(url).host}: ${code}` })
    },
  })

const failingOf = (body: string): string => {
  const read = Result.try(() => JSON.parse(body) as { readonly failing?: unknown })
  const failing = Result.isSuccess(read) ? read.success.failing : undefined
  return Array.isArray(failing) ? failing.join(', ') : 'no reason'
}

interface Process {
  readonly name: string
  readonly url: string
}

const processesOf = (entries: ReadonlyArray<string>): ReadonlyArray<Process> =>
  entries.flatMap((entry) => {
    const [, name, url] = /^([^=]+)=(https?:\/\/.+)$/u.exec(entry) ?? []
    return name === undefined || url === undefined || !URL.canParse(url) ? [] : [{ name, url }]
  })

const processes: Check = {
  subject: 'processes',
  needs: [],
  mend: 'Look at their logs.',
  run: Effect.gen(function* () {
    const entries = (yield* settings.hubctlAdminUrls.config).filter((entry) => entry !== '')
    const known = processesOf(entries)
    if (known.length < entries.length) {
      return problem(
        'HUBCTL_ADMIN_URLS is invalid',
        'Write it as name=http://host:port, separated by commas.',
      )
    }
    if (known.length === 0) {
      return notice('none was checked: HUBCTL_ADMIN_URLS is not set')
    }
    const answers = yield* Effect.forEach(
      known,
      ({ name, url }) =>
        get(`${url.replace(/\/$/u, '')}/readyz`).pipe(
          Effect.map(({ body, status }) =>
            status === 200 ? null : `${name} is not ready: ${failingOf(body)}`,
          ),
          Effect.timeoutOrElse({
            duration: '3 seconds',
            orElse: () => Effect.succeed(`${name} does not answer at ${url}`),
          }),
          Effect.catch(({ detail }) => Effect.succeed(`${name} cannot be reached: ${detail}`)),
        ),
      { concurrency: 'unbounded' },
    )
    const failures = answers.filter((answer) => answer !== null)
    const facts = { asked: known.map(({ name }) => name), wrong: failures }
    return failures.length === 0
      ? ok(`${known.map(({ name }) => name).join(', ')} are ready`, facts)
      : problem(failures.join('; '), 'Start them, or look at their logs.', facts)
  }),
}

const schemas: Check = {
  subject: 'schemas',
  needs: [],
  mend: 'Start command-api, or correct HUB_BASE_URL or HUB_SCHEMA_REGISTRY_URL.',
  run: Effect.gen(function* () {
    const registry = yield* settings.schemaRegistryUrl.config
    const base = registry ?? `${(yield* settings.baseUrl.config).replace(/\/$/u, '')}/schema-registry`
    const asked = performance.now()
    const { body, status } = yield* get(`${base.replace(/\/$/u, '')}/subjects`)
    const latency = Math.round(performance.now() - asked)
    const where = registry === null ? 'the API' : 'the registry'
    const read = Result.try(() => JSON.parse(body) as unknown)
    const served =
      Result.isSuccess(read) && Array.isArray(read.success)
        ? new Set(read.success.map((subject) => withoutContext(String(subject))))
        : null
    if (status !== 200 || served === null) {
      return problem(
        `${where} at ${base} answers ${status}`,
        'Correct HUB_BASE_URL or HUB_SCHEMA_REGISTRY_URL.',
      )
    }
    const wanted = [...new Set(SCHEMAS.map(({ name }) => subjectOf(name)))]
    const missing = wanted.filter((subject) => !served.has(subject))
    const facts = { subjects: wanted.length, missing, latency_ms: latency }
    return missing.length === 0
      ? ok(`${where} serves all ${wanted.length}, answers in ${latency} ms`, facts)
      : problem(
          `${where} does not have ${missing.join(', ')}`,
          'Run the same version of all apps. command-api registers the schemas when it starts.',
          facts,
        )
  }),
}

/** The ports of URLs without a port. */
const DEFAULT_PORTS: Readonly<Record<string, number>> = {
  'smpp:': 2775,
  'smpps:': 3550,
  'http:': 80,
  'https:': 443,
}

const operator: Check = {
  subject: 'operator',
  needs: [],
  mend: 'Ask the operator, or correct HUB_OPERATOR_SMPP_URL or HUB_OPERATOR_HTTP_URL.',
  run: Effect.gen(function* () {
    const smpp = yield* settings.operatorSmppUrl.config
    const http = yield* settings.operatorHttpUrl.config
    const url = smpp ?? (http === null ? null : new URL(http))
    if (url === null) {
      return notice('none is configured here; without one in the dispatcher, messages of live keys wait')
    }
    const port = url.port === '' ? (DEFAULT_PORTS[url.protocol] ?? 0) : Number(url.port)
    const address = `${url.hostname}:${port}`
    const facts = { protocol: url.protocol.slice(0, -1), place: address }
    return (yield* acceptsConnection(address, CONNECT_TIMEOUT))
      ? ok(`${facts.protocol} at ${address} accepts connections`, facts)
      : problem(
          `${facts.protocol} at ${address} accepts no connection`,
          'Ask the operator. The dispatcher retries messages of live keys until their lifetime ends.',
          facts,
        )
  }),
}

/** The metadata service of clouds, the usual target of a hostile webhook address. */
const METADATA = 'https://169.254.169.254/'

const egress: Check = {
  subject: 'webhook egress',
  needs: [],
  mend: 'Correct HUB_WEBHOOK_ALLOWED_HOSTS.',
  run: Effect.gen(function* () {
    const allowedHosts = yield* allowedHostsConfig
    const verdict = yield* Effect.result(makeAddressPolicy({ allowedHosts }).checkUrl(METADATA))
    const exceptions = [...allowedHosts]
    if (Result.isSuccess(verdict)) {
      return problem(
        'webhooks can reach the metadata service of a cloud',
        'Remove 169.254.169.254 from HUB_WEBHOOK_ALLOWED_HOSTS.',
        { exceptions },
      )
    }
    return exceptions.length === 0
      ? ok('public https addresses only', { exceptions })
      : notice(`public https addresses, and ${exceptions.join(', ')}`, { exceptions })
  }),
}

/** `names`: the names of the environment variables; `null`: the settings are not checked. */
export const environmentChecks = (names: ReadonlyArray<string> | null): ReadonlyArray<Check> => [
  ...(names === null ? [] : [ownSettings(names)]),
  processes,
  schemas,
  operator,
  egress,
]
