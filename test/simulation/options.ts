/** The command line of `npm run simulate`. */
import { availableParallelism } from 'node:os'
import { oneOf, parseOptions, wholeNumber, WrongOptions } from '../support/command-line.ts'
import { MUTATIONS } from './mutations/mutations.ts'
import { FAULT_KINDS, type FaultKind } from './world/faults.ts'
import { type Plan, planOf } from './world/run.ts'

export const HELP = `Runs the simulation of the hub: a seed determines workload, interleaving and faults.

  npm run simulate -- --seeds 100000             runs seeds and shows the progress
  npm run simulate -- --seed 17                  replays one seed as a timeline
  npm run simulate -- --mutations                checks that each mutation is found

Many seeds:
  --seeds <number>       how many (default 1000)
  --from <seed>          the first one (default 1)
  --threads <number>     how many run at a time (default: the number of cores)
  --keep-going           also after a failure; then no failing seed is shrunk

One seed:
  --seed <seed>          the seed to replay
  --size <number>        at most this many messages or events
  --limit <number>       only faults with a lower number
  --without <numbers>    leaves out these faults, for example 3,7

Mutations:
  --mutations            runs all of them, and writes mutations/results.json
  --mutation <text>      only those with this text in their names
  --threads <number>     how many run at a time (default: the number of cores)

Seeds:
  --faults <kinds>       only faults of these kinds, for example kill,pause
                         ${FAULT_KINDS.slice(0, 7).join(', ')},
                         ${FAULT_KINDS.slice(7).join(', ')}
  --help                 this text

Exit status: 0 if all guarantees hold and all mutations are found, 1 if a seed fails or a mutation is
not found, 2 for a wrong command line.
`

export type Options =
  | { readonly command: 'help' }
  | { readonly command: 'replay'; readonly plan: Plan }
  /** `names` is not empty. */
  | { readonly command: 'mutate'; readonly names: ReadonlyArray<string>; readonly threads: number }
  | {
      readonly command: 'run'
      readonly from: number
      readonly seeds: number
      readonly threads: number
      readonly keepGoing: boolean
      readonly kinds: ReadonlySet<FaultKind> | null
    }

const REPLAY_ONLY = ['size', 'limit', 'without'] as const
const RUN_ONLY = ['seeds', 'from', 'threads', 'keep-going'] as const
const NOT_OF_MUTATIONS = ['seed', ...REPLAY_ONLY, 'seeds', 'from', 'keep-going', 'faults'] as const

const parse = (args: ReadonlyArray<string>) =>
  parseOptions(args, {
    help: { type: 'boolean', default: false },
    seeds: { type: 'string' },
    from: { type: 'string' },
    threads: { type: 'string' },
    'keep-going': { type: 'boolean' },
    seed: { type: 'string' },
    size: { type: 'string' },
    limit: { type: 'string' },
    without: { type: 'string' },
    faults: { type: 'string' },
    mutations: { type: 'boolean' },
    mutation: { type: 'string' },
  })

const kindsOf = (text: string): ReadonlySet<FaultKind> =>
  new Set(text.split(',').map((name) => oneOf('fault', name, FAULT_KINDS)))

/** Throws `WrongOptions`. */
export const readOptions = (args: ReadonlyArray<string>): Options => {
  const values = parse(args)
  if (values.help) return { command: 'help' }
  const threads = (text: string | undefined) =>
    text === undefined ? availableParallelism() : wholeNumber('threads', text, 1)
  const kinds = values.faults === undefined ? null : kindsOf(values.faults)
  const number = (option: (typeof REPLAY_ONLY | typeof RUN_ONLY)[number], other: number, least: number) => {
    const text = values[option]
    return typeof text === 'string' ? wholeNumber(option, text, least) : other
  }
  const refuse = (options: ReadonlyArray<keyof typeof values>, reason: string) => {
    const given = options.find((option) => values[option] !== undefined)
    if (given !== undefined) throw new WrongOptions(`--${given} ${reason}.`)
  }
  if (values.mutations === true || values.mutation !== undefined) {
    refuse(NOT_OF_MUTATIONS, 'cannot be combined with mutations')
    const { mutation = '' } = values
    const names = MUTATIONS.map(({ name }) => name).filter((name) => name.includes(mutation))
    if (names.length === 0) throw new WrongOptions(`No mutation has "${mutation}" in its name.`)
    return { command: 'mutate', names, threads: threads(values.threads) }
  }
  if (values.seed === undefined) {
    refuse(REPLAY_ONLY, 'needs --seed, because it changes the run of one seed')
    return {
      command: 'run',
      from: number('from', 1, 0),
      seeds: number('seeds', 1000, 1),
      threads: threads(values.threads),
      keepGoing: values['keep-going'] ?? false,
      kinds,
    }
  }
  refuse(RUN_ONLY, 'is for many seeds, and cannot be combined with --seed')
  const plan = planOf(wholeNumber('seed', values.seed, 0), kinds)
  const without = values.without?.split(',').map((one) => wholeNumber('without', one, 0)) ?? []
  return {
    command: 'replay',
    plan: {
      ...plan,
      size: number('size', plan.size, 1),
      faults: { ...plan.faults, limit: number('limit', plan.faults.limit, 0), without: new Set(without) },
    },
  }
}

/** The command that replays a run. */
export const commandOf = ({ faults, seed, size }: Plan): string =>
  [
    `npm run simulate -- --seed ${seed}`,
    ...(Number.isFinite(size) ? [`--size ${size}`] : []),
    ...(Number.isFinite(faults.limit) ? [`--limit ${faults.limit}`] : []),
    ...(faults.without.size > 0 ? [`--without ${[...faults.without].join(',')}`] : []),
    ...(faults.kinds === null ? [] : [`--faults ${[...faults.kinds].join(',')}`]),
  ].join(' ')
