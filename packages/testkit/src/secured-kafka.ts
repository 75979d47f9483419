/** A broker that wants to know who one is, and proves by a certificate who it is itself. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  ensureJars,
  findJava,
  freePortBase,
  kafkaAnswers,
  portsAt,
  readSettings,
  STACK_JARS,
  startKafka,
} from '@hub/local-stack'
import { makeCertificateAuthority } from './certificates.ts'
import { eventually } from './eventually.ts'

export interface SecuredKafka {
  /** Where it wants TLS and a password; the user may authenticate by SCRAM-SHA-512 or PLAIN. */
  readonly brokers: ReadonlyArray<string>
  /** The authority that its certificate comes from, PEM. */
  readonly ca: string
  readonly username: string
  readonly password: string
  /** Ends it and removes its data. */
  readonly stop: () => Promise<void>
}

/** Bounds on what hangs. */
const ANSWERS_WITHIN = { withinMs: 45_000, everyMs: 100 } as const
const ENDS_WITHIN_MS = 10_000
/** They are there already where tests run: the stack is made of the same. */
const JARS_WITHIN_MS = 60_000
const HOST = '127.0.0.1'

export const startSecuredKafka = async (): Promise<SecuredKafka> => {
  const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'secured-'))
  const ports = portsAt(await freePortBase())
  const authority = await makeCertificateAuthority()
  const user = { username: 'hub', password: randomBytes(12).toString('hex') }
  const { cacheDir } = readSettings(process.env)
  const running = await startKafka({
    java: await findJava(process.env),
    jars: await ensureJars(STACK_JARS, cacheDir, process.env, () => {}, AbortSignal.timeout(JARS_WITHIN_MS)),
    dir: join(dir, 'kafka'),
    port: ports.kafka,
    controllerPort: ports.kafkaController,
    log: join(dir, 'kafka.log'),
    runDir: join(dir, 'run'),
    // No PostgreSQL here: its port is free.
    secured: { port: ports.postgres, ...(await authority.issue([HOST])), ...user },
  })
  const stop = async (): Promise<void> => {
    await running.end(ENDS_WITHIN_MS)
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    await eventually(() => kafkaAnswers(ports.kafka), ANSWERS_WITHIN)
  } catch (error) {
    await stop()
    throw error
  }
  return { brokers: [`${HOST}:${ports.postgres}`], ca: authority.pem, ...user, stop }
}
