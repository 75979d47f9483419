/** The command line of `npm run histories`. */
import { oneOf, parseOptions, wholeNumber } from '../support/command-line.ts'
import { FAULT_NAMES, type FaultName } from './schedule.ts'

export const HELP = `Runs a hub of two processes of each app under load and faults, records what clients,
receivers and the operator see, and judges the recorded history.

  npm run histories                          one run of 300 s with 500 sends per second
  npm run histories -- --runs 20 --seed 1    the seeds 1 to 20, and a summary

  --seed <number>      determines load and faults (default 1)
  --runs <number>      runs this many seeds, from --seed on (default 1)
  --rate <number>      wanted sends per second (default 500)
  --seconds <number>   how long clients send (default 300)
  --faults <names>     only these faults, separated by commas; "none" for no fault
                       ${FAULT_NAMES.slice(0, 6).join(', ')},
                       ${FAULT_NAMES.slice(6, 12).join(', ')},
                       ${FAULT_NAMES.slice(12).join(', ')}
  --out <folder>       the folder for the pages (default .local/histories)
  --keep               keeps the recorded history and the logs of each run, not only after a violation
  --max-mb <number>    ends the load when the recorded history has this size (default 1024)
  --help               this text

Exit status: 0 if all guarantees hold, 1 if one is violated, 2 for a wrong command line.
`

export interface RunOptions {
  readonly seed: number
  readonly rate: number
  readonly seconds: number
  readonly faults: ReadonlyArray<FaultName>
  readonly out: string
  readonly keep: boolean
  readonly maxBytes: number
}

export type Options =
  | { readonly command: 'help' }
  | { readonly command: 'run'; readonly runs: number; readonly run: RunOptions }

const parse = (args: ReadonlyArray<string>) =>
  parseOptions(args, {
    help: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '1' },
    rate: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '300' },
    faults: { type: 'string' },
    out: { type: 'string', default: '.local/histories' },
    keep: { type: 'boolean', default: false },
    'max-mb': { type: 'string', default: '1024' },
  })

const faultsOf = (text: string | undefined): ReadonlyArray<FaultName> => {
  if (text === undefined) return FAULT_NAMES
  return text === 'none' ? [] : text.split(',').map((name) => oneOf('fault', name, FAULT_NAMES))
}

/** Seeds above this are not distinct for the generator of random numbers. */
const LARGEST_SEED = 0xffff_ffff

/** Throws `WrongOptions`. */
export const readOptions = (args: ReadonlyArray<string>): Options => {
  const values = parse(args)
  if (values.help) return { command: 'help' }
  const runs = wholeNumber('runs', values.runs, 1, 1000)
  return {
    command: 'run',
    runs,
    run: {
      seed: wholeNumber('seed', values.seed, 0, LARGEST_SEED - runs),
      rate: wholeNumber('rate', values.rate, 1, 100_000),
      seconds: wholeNumber('seconds', values.seconds, 5, 86_400),
      faults: faultsOf(values.faults),
      out: values.out,
      keep: values.keep,
      maxBytes: wholeNumber('max-mb', values['max-mb'], 1, 1_000_000) * 1024 * 1024,
    },
  }
}

/** The command that repeats a run. */
export const commandOf = ({ faults, rate, seconds, seed }: RunOptions): string =>
  [
    `npm run histories -- --seed ${seed} --rate ${rate} --seconds ${seconds}`,
    ...(faults === FAULT_NAMES ? [] : [`--faults ${faults.join(',') || 'none'}`]),
  ].join(' ')
