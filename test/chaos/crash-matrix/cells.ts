/** The cells of the crash matrix, and how the command line and `npm test` select some of them. Pure. */
import { CRASH_FAULTS, CRASH_POINTS, type CrashFault, type CrashPoint } from '@hub/crash-points'
import { oneOf, parseOptions, wholeNumber, WrongOptions } from '../../support/command-line.ts'

export interface Cell {
  readonly point: CrashPoint
  readonly fault: CrashFault
}

export const POINTS = Object.keys(CRASH_POINTS) as ReadonlyArray<CrashPoint>

/** All cells, the faults of a point beside each other. */
export const CELLS: ReadonlyArray<Cell> = POINTS.flatMap((point) =>
  CRASH_FAULTS.map((fault): Cell => ({ point, fault })),
)

export const nameOf = ({ fault, point }: Cell): string => `${point} × ${fault}`
export const commandOf = ({ fault, point }: Cell): string =>
  `npm run chaos -- --point ${point} --fault ${fault}`

export const PARTS = 20
const DAY_MS = 86_400_000

/**
 * The part that `npm test` runs: `HUB_CRASH_PART`, or a different one each day, so that a day has
 * the same cells on every machine.
 */
export const partOf = (setting: string | undefined, now: number): number => {
  if (setting === undefined || setting === '') return Math.floor(now / DAY_MS) % PARTS
  if (!/^\d+$/u.test(setting) || Number(setting) >= PARTS) {
    throw new Error(`HUB_CRASH_PART must be a whole number from 0 to ${PARTS - 1}.`)
  }
  return Number(setting)
}

/** Every twentieth cell, so a part has points of all apps and all faults. */
export const cellsOfPart = (part: number): ReadonlyArray<Cell> =>
  CELLS.filter((_, index) => index % PARTS === part)

export const HELP = `Runs the crash matrix: each point in the code is combined with each fault.

  npm run chaos                                  all cells
  npm run chaos -- --point <names>               the cells of these points, for example a,b
  npm run chaos -- --fault <fault>               the cells of one fault: ${CRASH_FAULTS.join(', ')}
  npm run chaos -- --part <number>               the cells of one run of npm test: 0 to ${PARTS - 1}
  npm run chaos -- --list                        the names of the points, and what has happened there
  npm run chaos -- --help                        this text

Options can be combined. Exit status: 0 if all cells pass, 1 if one fails, 2 for a wrong command line.
`

export type Options =
  | { readonly command: 'help' | 'list' }
  | { readonly command: 'run'; readonly cells: ReadonlyArray<Cell> }

const parse = (args: ReadonlyArray<string>) =>
  parseOptions(args, {
    help: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    point: { type: 'string' },
    fault: { type: 'string' },
    part: { type: 'string' },
  })

/** Throws `WrongOptions`. */
export const readOptions = (args: ReadonlyArray<string>): Options => {
  const { fault, help, list, part, point } = parse(args)
  if (help) return { command: 'help' }
  if (list) return { command: 'list' }
  const onlyPoints =
    point === undefined ? null : new Set(point.split(',').map((name) => oneOf('point', name, POINTS)))
  const onlyFault = fault === undefined ? null : oneOf('fault', fault, CRASH_FAULTS)
  const cells = (part === undefined ? CELLS : cellsOfPart(wholeNumber('part', part, 0, PARTS - 1))).filter(
    (cell) => (onlyPoints?.has(cell.point) ?? true) && (onlyFault === null || cell.fault === onlyFault),
  )
  if (cells.length === 0) throw new WrongOptions('No cell has all of these options.')
  return { command: 'run', cells }
}

/**
 * What a cell needs for itself in its wave: its point, because a point is armed with one fault at a
 * time, and one of both command-apis, because clients cannot wait until a stop ends.
 */
const needsOf = ({ fault, point }: Cell): ReadonlyArray<string> =>
  fault === 'stop' && point.startsWith('command-api.') ? [point, 'stop of a command-api'] : [point]

/**
 * Divides cells into waves of at most `cellsAtOnce`, whose cells run at the same time on one hub.
 * `isAlone`: the cell needs the hub for itself.
 */
export const wavesOf = (
  cells: ReadonlyArray<Cell>,
  cellsAtOnce: number,
  isAlone: (cell: Cell) => boolean,
): ReadonlyArray<ReadonlyArray<Cell>> => {
  const others = cells.filter((cell) => !isAlone(cell))
  // Equal waves, so that the last one does not wait for a single cell.
  const waves = Array.from({ length: Math.ceil(others.length / cellsAtOnce) }, () => ({
    cells: [] as Array<Cell>,
    needs: new Set<string>(),
  }))
  // Cells with more needs first: they fit into fewer waves.
  for (const cell of others.toSorted((a, b) => needsOf(b).length - needsOf(a).length)) {
    const needs = needsOf(cell)
    const free = waves
      .filter((wave) => wave.cells.length < cellsAtOnce && needs.every((need) => !wave.needs.has(need)))
      .toSorted((a, b) => a.cells.length - b.cells.length)
    const wave = free[0] ?? { cells: [], needs: new Set<string>() }
    if (free.length === 0) waves.push(wave)
    wave.cells.push(cell)
    for (const need of needs) wave.needs.add(need)
  }
  return [...waves.map((wave) => wave.cells), ...cells.filter(isAlone).map((cell) => [cell])]
}
