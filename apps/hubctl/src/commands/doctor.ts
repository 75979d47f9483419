/** `hubctl doctor`: all that a hub stands on, in one screen. */
import { Effect } from 'effect'
import { CliOutput } from 'effect/cli'
import { defineCommand, NOTHING } from '../command-line/command.ts'
import { type Finding, runChecks, type Verdict } from '../doctor/check.ts'
import { pool, servers } from '../doctor/servers.ts'
import { surroundings } from '../doctor/environment.ts'
import { work } from '../doctor/pipeline.ts'
import { refused } from '../command-line/failure.ts'
import { show } from '../command-line/output.ts'
import { settings, Environment } from '../config.ts'

const SIGNS: Readonly<Record<Verdict, string>> = { well: '✓', note: '!', ill: '✗', unknown: '?' }

/** Control characters would move the cursor of whoever reads: names of topics and versions come from others. */
const plain = (text: string): string => text.replace(/\p{Cc}/gu, '?')

/** A line for each finding, and below what is wrong how to mend it. */
export const screen = (findings: ReadonlyArray<Finding>): string => {
  const width = Math.max(...findings.map(({ subject }) => CliOutput.displayWidth(subject)))
  return findings
    .flatMap(({ mend, said, subject, verdict }) => [
      `${SIGNS[verdict]} ${subject.padEnd(width)}  ${plain(said)}`,
      ...(mend === null ? [] : [`  ${' '.repeat(width)}  → ${mend}`]),
    ])
    .join('\n')
}

const ending = (ill: ReadonlyArray<string>): string =>
  ill.length === 0
    ? 'All is well.'
    : `${ill.length === 1 ? 'One thing is' : `${ill.length} things are`} wrong: ${ill.join(', ')}.`

export const doctor = defineCommand(
  'doctor',
  {
    short: 'Is everything well? All dependencies in one screen',
    about:
      'Asks everything that the hub stands on at once, and waits some seconds at most: settings, PostgreSQL, migrations, Redis, Kafka, topics beside the ' +
      'catalogue, the processes (HUBCTL_ADMIN_URLS), the schemas, the operator, where webhooks may go, how far readers are behind, outboxes, dead ' +
      'letters, the stop flag and the daily limit. A tick is well, an exclamation mark is worth knowing, a cross has to be mended and says how, and a ' +
      'question mark could not be looked at because of a cross. The exit code is 1 where there is a cross. The clocks of PostgreSQL and Redis are ' +
      'compared with those of this machine; Kafka does not tell its own.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl doctor', description: 'The hub of the environment, or the local one' },
      { command: 'hubctl doctor --json', description: 'For a program: each finding with its facts' },
    ],
    needs: settings,
  },
  {},
  Effect.fnUntraced(function* () {
    const names = Object.keys(yield* Environment)
    const findings = yield* runChecks([...surroundings(names), ...servers, ...work]).pipe(
      Effect.provide(pool),
    )
    const ill = findings.filter(({ verdict }) => verdict === 'ill').map(({ subject }) => subject)
    yield* show(
      { object: 'doctor', healthy: ill.length === 0, findings },
      () => `${screen(findings)}\n\n${ending(ill)}`,
    )
    if (ill.length > 0) return yield* refused('not_well', ending(ill))
  }),
)
