/** Writes the page of a run: the verdict, the faults, and a chart of sends, errors and faults. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChartSeries, toSvg } from '../../benchmarks/pages/chart.ts'
import type { Verdict } from './checker/check.ts'
import { type Finding, GUARANTEES, type Guarantee } from './checker/finding.ts'
import type { History } from './checker/read-history.ts'
import type { CpuProfile } from './cpu-profile.ts'
import type { SkippedFault } from './faults.ts'

export interface RunResult {
  readonly seed: number
  readonly rate: number
  readonly seconds: number
  readonly verdict: Verdict
  readonly skipped: ReadonlyArray<SkippedFault>
  /** Sends that were due, and those that were left out because too many were in flight. */
  readonly due: number
  readonly leftOut: number
  /** Accepted messages per second of load. */
  readonly acceptedPerSecond: number
  /** Null on systems without `/proc`. */
  readonly cpu: CpuProfile | null
  readonly unsettled: ReadonlyArray<string>
  readonly command: string
}

const MAX_FINDINGS = 50

/** Counts by second since `from`. */
const perSecond = (
  times: ReadonlyArray<readonly [at: number, count: number]>,
  from: number,
  seconds: number,
): ChartSeries['points'] => {
  const counts = Array.from({ length: seconds }, () => 0)
  for (const [at, count] of times) {
    const second = Math.floor((at - from) / 1000)
    if (second >= 0 && second < seconds) counts[second]! += count
  }
  return counts.map((count, second) => [second, count])
}

export const chartOf = (history: History, seed: number): string => {
  const from = history.run.at
  const accepted: Array<readonly [number, number]> = []
  const errors: Array<readonly [number, number]> = []
  for (const { attempts } of history.wanted.values()) {
    for (const { code, ended, outcome } of attempts) {
      if (outcome === 'accepted') accepted.push([ended, 1])
      if (outcome === 'unknown' || (code !== null && /unavailable|error|overloaded/u.test(code)))
        errors.push([ended, 1])
    }
  }
  const submits = history.submits.map(({ at }) => [at, 1] as const)
  const last = Math.max(from + 1000, ...history.faults.map(({ ended }) => ended))
  const seconds = Math.ceil(Math.max(history.run.seconds + 30, (last - from) / 1000 + 10))
  return toSvg({
    title: `Run with seed ${seed}`,
    unit: 'messages per second',
    series: [
      { name: 'accepted', points: perSecond(accepted, from, seconds) },
      { name: 'errors and unanswered', points: perSecond(errors, from, seconds) },
      { name: 'submits', points: perSecond(submits, from, seconds) },
    ],
    marks: history.faults.map(({ began }, i) => [(began - from) / 1000, String(i + 1)] as const),
  })
}

export const countsByGuarantee = (findings: ReadonlyArray<Finding>): ReadonlyMap<Guarantee, number> => {
  const counts = new Map<Guarantee, number>()
  for (const { guarantee } of findings) counts.set(guarantee, (counts.get(guarantee) ?? 0) + 1)
  return counts
}

const row = (cells: ReadonlyArray<string | number>): string => `| ${cells.join(' | ')} |`
const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string | number>>): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')
const seconds = (ms: number | null): string => (ms === null ? 'not measured' : `${(ms / 1000).toFixed(1)} s`)

/** What each process used, and what the machine had left. */
const cpuSection = ({ machine, messages, seconds: measured, used }: CpuProfile): string => {
  const ms = 1000 * measured
  const cells = (name: string, value: number) => [
    name,
    ((100 * value) / ms).toFixed(1),
    messages === 0 ? '' : Math.round((1000 * value) / messages),
  ]
  const total = [...used.values()].reduce((sum, value) => sum + value, 0)
  return `## CPU time

Of ${measured.toFixed(0)} s with ${messages} accepted messages, on ${machine.cores} cores.

${table(
  ['process', '% of a core', 'µs per accepted message'],
  [
    ...[...used].toSorted(([, a], [, b]) => b - a).map(([name, value]) => cells(name, value)),
    cells('**all processes of the run**', total),
    cells('other processes of the machine', machine.others),
    cells('idle', machine.idle),
    cells('of this, waiting for a disk', machine.waitsForDisk),
  ],
)}
`
}

export const pageOf = (result: RunResult, from: number): string => {
  const { acceptedPerSecond, command, cpu, due, leftOut, rate, seed, skipped, unsettled, verdict } = result
  const { availability, counts, findings } = verdict
  const violations = countsByGuarantee(findings)
  return `# Run with seed ${seed}

${findings.length === 0 ? 'No guarantee was violated.' : `**${findings.length} violations.**`}
Repeat it with \`${command}\`.

![Sends, errors and faults over time](run-${seed}.svg)

## Guarantees

${table(
  ['guarantee', 'violations'],
  Object.entries(GUARANTEES).map(([name, sentence]) => [sentence, violations.get(name as Guarantee) ?? 0]),
)}
${
  findings.length === 0
    ? ''
    : `\n${findings
        .slice(0, MAX_FINDINGS)
        .map(({ detail, guarantee }) => `- ${guarantee}: ${detail}`)
        .join(
          '\n',
        )}\n${findings.length > MAX_FINDINGS ? `\n${findings.length - MAX_FINDINGS} more are not shown.\n` : ''}`
}
## Faults

The number is the mark in the chart. Times are from the begin of the load. The longest unavailability is
from a single send that failed to the next one of its class that was accepted.

${table(
  ['', 'fault', 'target', 'from', 'to', 'longest for otp', 'longest for service', 'otp after the fault'],
  availability.map(({ began, ended, longest, name, otpAfter, target }, i) => [
    i + 1,
    name,
    target,
    seconds(began - from),
    seconds(ended - from),
    seconds(longest.otp),
    seconds(longest.service),
    seconds(otpAfter),
  ]),
)}
${skipped.map(({ name, reason }) => `\n\`${name}\` was skipped: ${reason}.\n`).join('')}
## Counts

${table(
  ['what', 'count'],
  [
    ['sends per second: wanted', rate],
    ['sends per second: accepted', acceptedPerSecond.toFixed(0)],
    ['sends that were due', due],
    ['due sends left out, because too many were in flight', leftOut],
    ['messages that clients wanted to send', counts.wanted],
    ['accepted', counts.accepted],
    ['refused in each attempt', counts.refused],
    ['without an answer', counts.unanswered],
    ['submits that the operator accepted', counts.submits],
    ['events in the journals', counts.events],
    ['webhooks', counts.webhooks],
    ['unknown outcomes: no report before the deadline', counts.unknownOutcomes],
    ['of these, charged and never accepted by the operator', counts.chargedUnsubmitted],
    ['expired before a submit', counts.expiredUnsubmitted],
    ['messages of which the operator accepted some parts only', counts.incomplete],
    ['answers later than the contract allows', counts.lateAnswers],
  ],
)}

${table(
  ['answer', 'requests'],
  Object.entries(counts.answers).toSorted(([, a], [, b]) => b - a),
)}
${cpu === null ? '' : `\n${cpuSection(cpu)}`}${unsettled.length === 0 ? '' : `\nAt the end of the run: ${unsettled.join('; ')}.\n`}`
}

export const writePage = (out: string, result: RunResult, history: History): string => {
  const path = join(out, `run-${result.seed}.md`)
  writeFileSync(join(out, `run-${result.seed}.svg`), chartOf(history, result.seed))
  writeFileSync(path, pageOf(result, history.run.at))
  return path
}

/** The summary of several runs. */
export const summaryOf = (results: ReadonlyArray<RunResult>): string => {
  const all = results.flatMap(({ verdict }) => verdict.findings)
  const violations = countsByGuarantee(all)
  const faults = Map.groupBy(
    results.flatMap(({ verdict }) => verdict.availability),
    ({ name }) => name,
  )
  const most = (values: ReadonlyArray<number | null>): string => {
    const known = values.filter((value) => value !== null)
    return known.length === 0 ? 'not measured' : seconds(Math.max(...known))
  }
  return `# Histories

${results.length} runs, ${all.length} violations.

${table(
  ['seed', 'accepted', 'per second', 'submits', 'faults', 'unknown outcomes', 'violations'],
  results.map(({ acceptedPerSecond, seed, verdict: { availability, counts, findings } }) => [
    `[${seed}](run-${seed}.md)`,
    counts.accepted,
    acceptedPerSecond.toFixed(0),
    counts.submits,
    availability.length,
    counts.unknownOutcomes,
    findings.length,
  ]),
)}

${table(
  ['guarantee', 'violations'],
  Object.entries(GUARANTEES).map(([name, sentence]) => [sentence, violations.get(name as Guarantee) ?? 0]),
)}

## Unavailability

${table(
  ['fault', 'times', 'longest for otp', 'longest for service', 'otp after the fault, at most'],
  [...faults].map(([name, times]) => [
    name,
    times.length,
    most(times.map(({ longest }) => longest.otp)),
    most(times.map(({ longest }) => longest.service)),
    most(times.map(({ otpAfter }) => otpAfter)),
  ]),
)}
`
}
