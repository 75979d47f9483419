/**
 * The libraries of Standard Webhooks in Python, Java, Go and Rust judge a delivery of the webhook client,
 * with three secrets as during two rotations. Source: DEL-25, DEL-26.
 */
import { deepEqual } from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeCertificateAuthority, tlsReceiver } from '@hub/testkit'
import { AddressPolicy, makeAddressPolicy, makeWebhookClient } from '@hub/webhooks'
import { Clock, Effect, Redacted } from 'effect'
import { ROOT } from '@hub/local-stack'
import {
  cachedTool,
  type Found,
  goProgram,
  javaCompilerMissing,
  javaLibrary,
  pythonTool,
  runTool,
} from '../support/external-tools.ts'
import { python, PYTHON_CLIENT } from '../support/python-client.ts'

const FOLDER = join(import.meta.dirname, 'standard-webhooks')
const COMPILED_WITHIN_MS = 600_000
const JUDGED_WITHIN_MS = 60_000

const newSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

/** What a library is asked: whether the request is valid with the secret. */
interface Question {
  readonly name: string
  readonly valid: boolean
  readonly secret: string
  readonly id: string
  readonly timestamp: string
  readonly signature: string
  /** JSON without line breaks and tabs. */
  readonly body: string
}

/** The parts of a received request that a library reads. */
export interface Delivery {
  readonly headers: Readonly<Record<string, ReadonlyArray<string> | string | undefined>>
  readonly body: Uint8Array
}

/** Asks whether a delivery is valid with each secret that signed it, and about changed copies of it. */
export const questionsAbout = (
  { body, headers }: Delivery,
  secrets: readonly [string, ...ReadonlyArray<string>],
): ReadonlyArray<Question> => {
  const header = (name: string): string => String(headers[name])
  const signature = header('webhook-signature')
  const received = {
    valid: true,
    id: header('webhook-id'),
    timestamp: header('webhook-timestamp'),
    signature,
    body: Buffer.from(body).toString(),
  }
  const [secret] = secrets
  const refused = { ...received, secret, valid: false }
  return [
    ...secrets.map((one, i) => ({ ...received, name: `secret ${i + 1} of ${secrets.length}`, secret: one })),
    { ...refused, name: 'another secret', secret: newSecret() },
    { ...refused, name: 'another id', id: 'evb_2' },
    { ...refused, name: 'another time', timestamp: String(Number(received.timestamp) - 1) },
    { ...refused, name: 'another body', body: received.body.replace('evt_', 'evt_0') },
    { ...refused, name: 'only the signatures of other secrets', signature: signature.replace(/^\S+ /u, '') },
  ]
}

/** The libraries refuse a timestamp that is more than five minutes old, although it is signed. */
const TOO_OLD_MS = 301_000

/** Delivers a batch with three secrets, now and minutes ago, and asks about both requests. */
const questions = Effect.gen(function* () {
  const authority = yield* Effect.promise(() => makeCertificateAuthority())
  const receiver = yield* tlsReceiver(yield* Effect.promise(() => authority.issue(['127.0.0.1'])))
  const policy = makeAddressPolicy({ allowedHosts: new Set(['127.0.0.1']) })
  const secrets = [newSecret(), newSecret(), newSecret()] as const
  const event = { id: 'evt_1', object: 'event', data: { object: { client_ref: 'заказ 😀' } } }
  const clock = yield* Clock.Clock
  const deliver = Effect.fnUntraced(function* (ageMs: number) {
    const client = yield* makeWebhookClient(authority.pem).pipe(
      Effect.provideService(AddressPolicy, policy),
      Effect.provideService(Clock.Clock, {
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - ageMs,
        currentTimeMillis: Effect.sync(() => clock.currentTimeMillisUnsafe() - ageMs),
        currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
        currentTimeNanos: clock.currentTimeNanos,
        monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
        monotonicTimeNanos: clock.monotonicTimeNanos,
        sleep: (duration) => clock.sleep(duration),
      }),
    )
    yield* client.deliver({
      url: receiver.url(),
      eventBatch: 'evb_1',
      body: Buffer.from(JSON.stringify([event])),
      secrets: [Redacted.make(secrets[0]), Redacted.make(secrets[1]), Redacted.make(secrets[2])],
    })
    return questionsAbout(receiver.received.at(-1)!, secrets)
  })
  const [old] = yield* deliver(TOO_OLD_MS)
  return [...(yield* deliver(0)), { ...old!, name: 'an old time', valid: false }]
}).pipe(Effect.scoped)

/** A command that answers a file of questions, one a line, with `true` and `false`, one a line. */
type Judge = Found<{ readonly command: readonly [string, ...ReadonlyArray<string>] }>

const PYTHON_VERSION = '1.1.0'

const pythonJudge = async (): Promise<Judge> => {
  const found = await pythonTool('standardwebhooks', PYTHON_VERSION)
  return 'missing' in found
    ? found
    : { command: [join(found.folder, 'bin/python'), join(FOLDER, 'judge.py')] }
}

/** The Python client of this repository, for comparison. */
const pythonClientJudge = async (): Promise<Judge> => {
  const found = await python()
  return 'missing' in found
    ? found
    : {
        command: [
          'env',
          `PYTHONPATH=${join(ROOT, PYTHON_CLIENT, 'src')}`,
          found.command,
          join(FOLDER, 'judge_client.py'),
        ],
      }
}

/** The versions are in `go.mod` and `Cargo.toml`. */
const goJudge = async (): Promise<Judge> => {
  const found = await goProgram(join(FOLDER, 'go'))
  return 'missing' in found ? found : { command: [found.program] }
}

const rustJudge = async (): Promise<Judge> => {
  const found = await cachedTool('standardwebhooks-rust-1.0.1', (folder) => {
    const built = join(folder, 'target')
    const args = ['--locked', '--path', join(FOLDER, 'rust'), '--root', folder, '--target-dir', built]
    return runTool('cargo', ['install', ...args], { withinMs: COMPILED_WITHIN_MS })
  })
  return 'missing' in found ? found : { command: [join(found.folder, 'bin/judge')] }
}

const javaJudge = async (): Promise<Judge> => {
  const folder = join(FOLDER, 'java')
  const found = await javaLibrary({
    pom: join(folder, 'pom.xml'),
    checksums: join(folder, 'jars.sha256'),
    what: 'the Java library of Standard Webhooks',
    size: '10 kB',
  })
  if ('missing' in found) return found
  const missing = await javaCompilerMissing(found.java)
  if (missing !== null) return { missing }
  return { command: [found.java, '-cp', found.classPath, join(folder, 'Judge.java')] }
}

/** Lets a library answer all questions. Throws if an answer is wrong. */
const judge = async (
  found: Judge,
  given?: ReadonlyArray<Question>,
): Promise<Found<{ readonly right: number }>> => {
  if ('missing' in found) return found
  const asked = given ?? (await Effect.runPromise(questions))
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'standard-webhooks-'))
  const file = join(folder, 'questions.tsv')
  const lines = asked.map(({ body, id, secret, signature, timestamp }) =>
    [secret, id, timestamp, signature, body].join('\t'),
  )
  writeFileSync(file, lines.join('\n'))
  const [command, ...args] = found.command
  const { code, text } = await runTool(command, [...args, file], { withinMs: JUDGED_WITHIN_MS })
  const answers = text.trim().split('\n')
  deepEqual(
    { code, answers: asked.map(({ name }, i) => `${name}: ${answers[i]}`), count: answers.length },
    { code: 0, answers: asked.map(({ name, valid }) => `${name}: ${valid}`), count: asked.length },
  )
  return { right: answers.length }
}

/** Python's library alone, which `npm test` runs too. */
export const judgeWithPython = async () => judge(await pythonJudge())

/** Java's library alone. `asked`: about the deliveries of a running hub, for example. */
export const judgeWithJava = async (asked?: ReadonlyArray<Question>) => judge(await javaJudge(), asked)

/** The Python client, which must give the same answers. */
export const judgeWithPythonClient = async () => judge(await pythonClientJudge())

export const judgeStandardWebhooks = async (): Promise<void> => {
  for (const [language, find] of [
    ['Python', pythonJudge],
    ['Python client', pythonClientJudge],
    ['Java', javaJudge],
    ['Go', goJudge],
    ['Rust', rustJudge],
  ] as const) {
    const done = await judge(await find())
    console.log(
      `${language}: ${'missing' in done ? `skipped, because ${done.missing}` : `${done.right} right answers`}`,
    )
  }
}
