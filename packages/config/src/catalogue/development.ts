/**
 * What only a developer's machine has. The hub's processes read none of these; they are here so
 * that every name is known.
 */
import * as kind from '../kinds.ts'
import { optional, type Reader, withDefault } from '../setting.ts'

const START: ReadonlyArray<Reader> = ['npm start']
const SIMULATOR: ReadonlyArray<Reader> = ['operator simulator']
const TESTS: ReadonlyArray<Reader> = ['tests']

const SET_BY_START = 'set by `npm start`'
const SET_BY_TESTS = 'set by `npm test`'

/** The plan of ports reaches some dozens above its base. */
const MOST_PORT_BASE = 65_000
const ANY_NUMBER = 1_000_000_000

export const local = {
  portBase: withDefault(kind.integer(1, MOST_PORT_BASE), '7300', {
    name: 'HUB_PORT_BASE',
    group: 'local',
    readBy: [...START, 'tests'],
    doc: 'The API listens here, everything else at a fixed distance above.',
  }),
  cacheDir: optional(kind.path('a folder'), '`~/.cache/sms-delivery-hub`', {
    name: 'HUB_CACHE_DIR',
    group: 'local',
    readBy: [...START, 'tests'],
    doc: 'Downloads that every checkout on the machine shares.',
  }),
  localOperator: optional(
    kind.choice(['smpp', 'http']),
    '`smpp`, unless an operator of your own is configured',
    {
      name: 'HUB_LOCAL_OPERATOR',
      group: 'local',
      readBy: START,
      doc: 'How live keys reach the operator simulator.',
    },
  ),
}

export const simulator = {
  simulatorPort: optional(kind.port, SET_BY_START, {
    name: 'HUB_OPERATOR_SIMULATOR_PORT',
    group: 'simulator',
    readBy: SIMULATOR,
    doc: 'Where it listens for HTTP.',
  }),
  simulatorSmppPort: optional(kind.port, 'no SMPP', {
    name: 'HUB_OPERATOR_SIMULATOR_SMPP_PORT',
    group: 'simulator',
    readBy: SIMULATOR,
    doc: 'Where it listens for SMPP.',
  }),
  simulatorSystemId: optional(kind.string(), SET_BY_START, {
    name: 'HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID',
    group: 'simulator',
    readBy: SIMULATOR,
    doc: 'Who may bind.',
  }),
  simulatorPassword: optional(kind.secret({ least: 1, most: 8 }), SET_BY_START, {
    name: 'HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD',
    group: 'simulator',
    readBy: SIMULATOR,
    doc: 'With which password.',
  }),
  simulatorCallbackUrl: optional(kind.url('http', 'https'), SET_BY_START, {
    name: 'HUB_OPERATOR_CALLBACK_URL',
    group: 'simulator',
    readBy: SIMULATOR,
    doc: 'Where its reports go over HTTP.',
  }),
  simulatorJournal: optional(kind.path('a file'), SET_BY_START, {
    name: 'HUB_OPERATOR_JOURNAL',
    group: 'simulator',
    readBy: SIMULATOR,
    doc: 'The file that keeps counts, ids and open reports over a restart.',
  }),
}

export const tests = {
  testKafka: optional(kind.brokers, SET_BY_TESTS, {
    name: 'HUB_TEST_KAFKA',
    group: 'tests',
    readBy: TESTS,
    doc: 'The brokers that integration tests share.',
  }),
  testDatabaseUrl: optional(kind.secretUrl('postgres', 'postgresql'), SET_BY_TESTS, {
    name: 'HUB_TEST_DATABASE_URL',
    group: 'tests',
    readBy: TESTS,
    doc: 'A database from which integration tests create and drop their own.',
  }),
  testRedisUrl: optional(kind.secretUrl('redis', 'rediss'), SET_BY_TESTS, {
    name: 'HUB_TEST_REDIS_URL',
    group: 'tests',
    readBy: TESTS,
    doc: 'The Redis that integration tests share.',
  }),
  testDir: optional(kind.path('a folder'), "the system's folder for temporary files", {
    name: 'HUB_TEST_DIR',
    group: 'tests',
    readBy: TESTS,
    doc: 'Below it lie the hubs that tests start.',
  }),
  chaosSeconds: optional(kind.integer(1, ANY_NUMBER), 'short', {
    name: 'HUB_CHAOS_SECONDS',
    unit: 'seconds',
    group: 'tests',
    readBy: TESTS,
    doc: 'How long dispatchers are killed under load.',
  }),
  chaosRate: optional(kind.integer(1, ANY_NUMBER), 'light', {
    name: 'HUB_CHAOS_RATE',
    unit: 'messages a second',
    group: 'tests',
    readBy: TESTS,
    doc: 'The load at that time.',
  }),
  chaosSeed: optional(kind.integer(0, ANY_NUMBER), 'another each time', {
    name: 'HUB_CHAOS_SEED',
    group: 'tests',
    readBy: TESTS,
    doc: 'Repeats the order of a run.',
  }),
  checkerMessages: optional(kind.integer(1, ANY_NUMBER), 'some hundreds', {
    name: 'HUB_CHECKER_MESSAGES',
    unit: 'messages',
    group: 'tests',
    readBy: TESTS,
    doc: 'How many messages the second implementation of the read models checks.',
  }),
  checkerSeed: optional(kind.integer(0, ANY_NUMBER), 'the same each time', {
    name: 'HUB_CHECKER_SEED',
    group: 'tests',
    readBy: TESTS,
    doc: 'Which messages those are.',
  }),
  cursorSeconds: withDefault(kind.integer(1, ANY_NUMBER), '15', {
    name: 'HUB_CURSOR_SECONDS',
    unit: 'seconds',
    group: 'tests',
    readBy: TESTS,
    doc: 'How long readers follow a journal that several projectors fill.',
  }),
  cursorSeed: optional(kind.integer(0, ANY_NUMBER), 'the same each time', {
    name: 'HUB_CURSOR_SEED',
    group: 'tests',
    readBy: TESTS,
    doc: 'Repeats the order of such a run.',
  }),
  modelRuns: optional(kind.integer(1, ANY_NUMBER), 'some hundreds', {
    name: 'HUB_MODEL_RUNS',
    unit: 'runs',
    group: 'tests',
    readBy: TESTS,
    doc: 'How many histories the model-based tests of shards try.',
  }),
  modelSeed: optional(kind.integer(0, ANY_NUMBER), 'the same each time', {
    name: 'HUB_MODEL_SEED',
    group: 'tests',
    readBy: TESTS,
    doc: 'Which histories those are.',
  }),
  upgradeFrom: optional(kind.string(), 'what was before the last change of migrations or record schemas', {
    name: 'HUB_UPGRADE_FROM',
    group: 'tests',
    readBy: TESTS,
    doc: 'The commit whose apps, schema and topics the upgrade test starts from.',
  }),
}
