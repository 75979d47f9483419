/** `hubctl doctor`: checks all dependencies of the hub, and shows the findings on one screen. */
import { NOTHING, refused, show } from '@hub/command-line'
import { Doctor } from '@hub/operations'
import { onOneLine } from '@hub/text'
import { Effect } from 'effect'
import { CliOutput } from 'effect/cli'
import { defineCommand } from '../command-line/command.ts'
import { performOverApi, selectedApi } from '../api.ts'
import { settingsOfHub } from '../command-line/connections.ts'
import { Environment } from '../config.ts'
import { run } from '../operations.ts'

const SIGNS: Readonly<Record<Doctor.Verdict, string>> = { well: '✓', note: '!', ill: '✗', unknown: '?' }

/** One line for each finding, and a second line with the repair of a problem. */
export const screen = (findings: ReadonlyArray<Doctor.Finding>): string => {
  const width = Math.max(...findings.map(({ subject }) => CliOutput.displayWidth(subject)))
  return findings
    .flatMap(({ mend, said, subject, verdict }) => [
      `${SIGNS[verdict]} ${subject.padEnd(width)}  ${onOneLine(said)}`,
      ...(mend === null ? [] : [`  ${' '.repeat(width)}  → ${mend}`]),
    ])
    .join('\n')
}

const summary = (problems: ReadonlyArray<string>): string =>
  problems.length === 0
    ? 'All is well.'
    : `${problems.length === 1 ? 'One thing is' : `${problems.length} things are`} wrong: ${problems.join(', ')}.`

export const doctor = defineCommand(
  'doctor',
  {
    short: 'Check all dependencies of the hub',
    about:
      'Checks all dependencies at the same time, within some seconds: settings, PostgreSQL, ' +
      'migrations, Redis, Kafka, topics, processes (HUBCTL_ADMIN_URLS), schemas, the operator, webhook ' +
      'egress, consumer lag, outboxes, erasures, dead letters, the stop switch and the daily limit. ✓ means in ' +
      'order, ! is a notice, ✗ is a problem with its repair, and ? could not be checked because of ' +
      'another problem. The exit code is 1 if there is a problem. The clocks of PostgreSQL and Redis ' +
      'are compared with the clock of this machine; Kafka does not publish its clock. With --api, the ' +
      'operations API checks, and leaves out the settings, the processes and the network of this machine.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl doctor', description: 'The hub of the environment, or the local one' },
      { command: 'hubctl doctor --json', description: 'For a program, with the facts of each finding' },
    ],
    needs: settingsOfHub,
  },
  {},
  Effect.fnUntraced(function* () {
    const variables = Object.keys(yield* Environment)
    const api = yield* selectedApi
    const result =
      api === null
        ? yield* run(Doctor.check, { variables }).pipe(Effect.provide(Doctor.doctorPool))
        : yield* performOverApi(api, Doctor.checkHub, {})
    const problems = result.findings.filter(({ verdict }) => verdict === 'ill').map(({ subject }) => subject)
    yield* show(result, ({ findings }) => `${screen(findings)}\n\n${summary(problems)}`)
    if (problems.length > 0) return yield* refused('not_well', summary(problems))
  }),
)
