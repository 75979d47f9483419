/** Starts a Kafka broker that requires TLS and SASL authentication. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  ensureJars,
  findJava,
  freePortBase,
  isKafkaReady,
  portsAt,
  readSettings,
  STACK_JARS,
  startKafka,
} from '@hub/local-stack'
import { type CertificateAuthority, eventually, makeCertificateAuthority } from '@hub/testkit'

export interface SecuredKafka {
  /** The addresses with TLS and SASL. The user can authenticate with SCRAM-SHA-512 or PLAIN. */
  readonly brokers: ReadonlyArray<string>
  /** The address with TLS at which clients need a certificate of the same authority. */
  readonly mutualBrokers: ReadonlyArray<string>
  /** The authority that signed the broker's certificate. */
  readonly authority: CertificateAuthority
  /** Its certificate in PEM. */
  readonly ca: string
  readonly username: string
  readonly password: string
  /** Stops the broker and removes its data. */
  readonly stop: () => Promise<void>
}

/** These limits only end a start or stop that hangs. */
const READY_WITHIN = { everyMs: 100 } as const
const STOP_WITHIN_MS = 10_000
/** The test runner has already downloaded the files for its own broker. */
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
    // This fixture starts neither PostgreSQL nor Redis, so the ports planned for them are free.
    secured: {
      port: ports.postgres,
      ...(await authority.issue([HOST])),
      ...user,
      others: [
        {
          name: 'MUTUAL',
          protocol: 'SSL',
          port: ports.redis,
          properties: {
            'ssl.client.auth': 'required',
            'ssl.truststore.type': 'PEM',
            'ssl.truststore.certificates': authority.pem,
          },
        },
      ],
    },
  })
  const stop = async (): Promise<void> => {
    await running.end(STOP_WITHIN_MS)
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    await eventually(() => isKafkaReady(ports.kafka), READY_WITHIN)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    brokers: [`${HOST}:${ports.postgres}`],
    mutualBrokers: [`${HOST}:${ports.redis}`],
    authority,
    ca: authority.pem,
    ...user,
    stop,
  }
}
