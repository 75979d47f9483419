/** `npm run simulate`: runs seeds of the simulation, and shows a failing one as a timeline. */
import { nameOf } from './world/checks.ts'
import { type Plan, planOf, type RunResult } from './world/run.ts'
import { runSeed } from './run-seed.ts'
import { parseArgs } from 'node:util'
import { shrink } from './world/shrink.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    size: { type: 'string' },
    limit: { type: 'string' },
    without: { type: 'string', default: '' },
    'keep-going': { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false },
  },
})

const numberOr = (text: string | undefined, other: number) => (text === undefined ? other : Number(text))

const seconds = (ms: number) => `${(ms / 1000).toFixed(3).padStart(8)} s`

const showTimeline = (result: RunResult) => {
  for (const { at, what, who } of result.timeline) console.log(`${seconds(at)}  ${who.padEnd(14)} ${what}`)
}

const show = (result: RunResult) => {
  for (const violation of result.violations) console.log(`  VIOLATION  ${violation}`)
  for (const [number, fault] of result.faults) console.log(`  fault ${String(number).padStart(4)}  ${fault}`)
}

const commandOf = ({ faults, seed, size }: Plan) =>
  [
    `npm run simulate -- --seed ${seed}`,
    ...(Number.isFinite(size) ? [`--size ${size}`] : []),
    ...(Number.isFinite(faults.limit) ? [`--limit ${faults.limit}`] : []),
    ...(faults.without.size > 0 ? [`--without ${[...faults.without].join(',')}`] : []),
  ].join(' ')

if (values.seed !== undefined) {
  const plan: Plan = {
    seed: Number(values.seed),
    size: numberOr(values.size, Number.POSITIVE_INFINITY),
    faults: {
      limit: numberOr(values.limit, Number.POSITIVE_INFINITY),
      without: new Set(
        values.without
          .split(',')
          .filter((one) => one !== '')
          .map(Number),
      ),
    },
  }
  const result = runSeed(plan, { keepTimeline: true })
  showTimeline(result)
  show(result)
  process.exitCode = result.violations.length === 0 ? 0 : 1
} else {
  const from = Number(values.from)
  const count = Number(values.seeds)
  const began = performance.now()
  const beganCpu = process.cpuUsage()
  let failed = 0
  let shownAt = began
  let tasks = 0
  const byName = new Map<string, number>()
  for (let seed = from; seed < from + count; seed++) {
    const result = runSeed(planOf(seed))
    tasks += result.tasks
    if (performance.now() - shownAt > 2000) {
      shownAt = performance.now()
      const done = seed - from + 1
      console.log(
        `${done} of ${count} seeds, ${(done / ((shownAt - began) / 1000)).toFixed(1)} seeds/s, ${failed} failed`,
      )
    }
    if (result.violations.length === 0) continue
    failed++
    for (const name of new Set(result.violations.map(nameOf))) byName.set(name, (byName.get(name) ?? 0) + 1)
    console.log(`seed ${seed}: ${result.violations[0] ?? ''}`)
    if (values['keep-going']) continue
    const smallest = values['no-shrink'] ? result : shrink(result, runSeed)
    show(smallest)
    console.log(`Replay it with: ${commandOf(smallest.plan)}`)
    break
  }
  const { system, user } = process.cpuUsage(beganCpu)
  const ms = performance.now() - began
  console.log(
    `${(user + system) / 1000 / count} ms of CPU for each seed, ${Math.round(tasks / count)} tasks, ${((count / ms) * 1000).toFixed(1)} seeds/s, ${failed} failed`,
  )
  for (const [name, seeds] of byName) console.log(`  ${name}: ${seeds} seeds`)
  process.exitCode = failed === 0 ? 0 : 1
}
