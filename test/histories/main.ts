/** `npm run histories`. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { UserError } from '@hub/local-stack'
import { WrongOptions } from '../support/command-line.ts'
import { HELP, type Options, readOptions } from './options.ts'
import { countsByGuarantee, type RunResult, summaryOf } from './page.ts'
import { makeRun } from './run.ts'

/** Signals within this time are one interrupt. */
const SAME_INTERRUPT_MS = 1000
/** As a shell reports a program that ended by SIGINT. */
const INTERRUPTED = 130

const print = (line: string): void => console.log(line)

const runAll = async ({ run, runs }: Extract<Options, { command: 'run' }>): Promise<number> => {
  const ending = new AbortController()
  let interruptedAt = 0
  const interrupt = (): void => {
    // npm and the terminal may both send the signal.
    if (Date.now() - interruptedAt < SAME_INTERRUPT_MS) return
    interruptedAt = Date.now()
    if (ending.signal.aborted) process.exit(INTERRUPTED)
    print('Interrupted: the run ends and removes its files.')
    ending.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
  const results: Array<RunResult> = []
  for (let seed = run.seed; seed < run.seed + runs; seed++) {
    print(`Seed ${seed}: ${run.rate} sends per second for ${run.seconds} s`)
    try {
      const { page, result } = await makeRun({ ...run, seed }, print, ending.signal)
      results.push(result)
      const { counts, findings } = result.verdict
      const violations = [...countsByGuarantee(findings)].map(([name, count]) => `${count} × ${name}`)
      print(
        `Seed ${seed}: ${counts.accepted} accepted (${result.acceptedPerSecond.toFixed(0)} per second), ${counts.submits} submits, ${result.verdict.availability.length} faults, ${findings.length === 0 ? 'no violation' : `VIOLATIONS: ${violations.join(', ')}`}`,
      )
      print(`The page of the run is ${page}`)
      for (const { detail, guarantee } of findings.slice(0, 5)) print(`  ${guarantee}: ${detail}`)
    } catch (error) {
      if (ending.signal.aborted) return INTERRUPTED
      throw error
    }
  }
  const violated = results.reduce((sum, { verdict }) => sum + verdict.findings.length, 0)
  if (runs > 1) {
    mkdirSync(run.out, { recursive: true })
    const path = join(run.out, 'summary.md')
    writeFileSync(path, summaryOf(results))
    print(`The summary is ${path}`)
  }
  print(`${results.length} runs, ${violated} violations`)
  return violated === 0 ? 0 : 1
}

const main = async (): Promise<number> => {
  try {
    const options = readOptions(process.argv.slice(2))
    if (options.command === 'help') {
      process.stdout.write(HELP)
      return 0
    }
    return await runAll(options)
  } catch (error) {
    if (error instanceof WrongOptions || error instanceof UserError) {
      console.error(error.message)
      return 2
    }
    throw error
  }
}

process.exit(await main())
