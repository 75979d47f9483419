/**
 * A run of the projection: lanes and log → projectors → read models, journal and outbox →
 * `hub.webhooks.v1`, with several projector processes that fail, and the checks of what they wrote.
 */
import { encodeId, minorUnits, spendPeriodOf } from '@hub/domain'
import { derivedColumns, type JournalEntry, type JournalKey } from '@hub/projector'
import { journalName } from '@hub/projector/testing'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { checkIdle } from '../world/idle.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'
import { APPLIED_WITHIN_MS, startProjectors } from './projectors.ts'
import { startWorkload } from './workload.ts'

const SERVERS = ['kafka', 'postgres']
const FAULTS_MS = 30_000
/** The hub logs an error for a record that cannot be applied. */
const DEAD_LETTERED = /dead-lettered a record/u
const THRESHOLD_PERCENT = 80

export const runProjecting = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, expectedErrors: DEAD_LETTERED, run }, plan, options)

const run = (simulation: Simulation): number => {
  const { plan, violations, world } = simulation
  const random = simulation.random('accounts')
  const accounts = Array.from({ length: random.between(1, 2) }, (_, i) =>
    encodeId('acc', `00000001-0000-4000-8000-${String(i + 1).padStart(12, '0')}`),
  )
  const journals = accounts.flatMap((account): ReadonlyArray<JournalKey> => [
    { account, mode: 'live' },
    { account, mode: 'test' },
  ])
  const projectors = startProjectors(simulation, { journals })
  const { store, subscribedAfter } = projectors

  // ---- subscriptions

  /** Its transaction locks the journal head until its commit. */
  const subscribe = (journal: JournalKey) => {
    const creation = store.begin()
    creation.lockHead(journal, (sequence) =>
      world.after(random.between(0, 50), () => {
        world.note('command-api', () => `creates a subscription behind ${sequence}`)
        subscribedAfter.set(journalName(journal), sequence)
        creation.commit()
      }),
    )
  }
  for (const journal of journals) {
    const at = random.pick([0, 0, random.between(1, FAULTS_MS), null])
    if (at !== null) world.after(at, () => subscribe(journal))
  }

  // ---- the workload

  for (const account of accounts) {
    if (random.chance(0.5)) continue
    const limit = { amount: `${random.between(5, 40)}.00`, currency: 'RUB' }
    store.spendLimits.set(account, { limit, softThresholdPercent: THRESHOLD_PERCENT })
  }
  const inbox = new Map<string, JournalEntry>()
  const count = Math.min(random.between(3, 30), plan.size)
  const workload = startWorkload(simulation, {
    accounts,
    count,
    withinMs: FAULTS_MS - 5000,
    onAccepted: ({ account, at, mode, price }) => {
      if (mode === 'live') store.charge({ account, period: spendPeriodOf(at).day, amount: price })
    },
    onEntries: (entries) => {
      for (const entry of entries) inbox.set(entry.event.id, entry)
      store.addEntries('event inbox', entries)
    },
  })

  // ---- the run

  world.runFor(FAULTS_MS)
  simulation.endFaults()
  const isDone = () => workload.isOver() && projectors.isDone()
  if (!world.runUntilSometimes(isDone, APPLIED_WITHIN_MS)) projectors.checkProgress()
  checkIdle(simulation, [projectors.activity])
  projectors.check()

  // ---- the checks of accounts

  for (const { account, event, mode } of inbox.values()) {
    const found = store.events({ account, mode }).filter(({ id }) => id === event.id)
    if (found.length !== 1) violations.add('an event of the inbox is not recorded once', event.id)
  }
  for (const [name, { spent, told }] of store.tables.spendPeriods) {
    const account = name.slice(0, name.indexOf(' '))
    let billed = 0n
    for (const row of store.tables.messages.values()) {
      const { price } = derivedColumns(row)
      if (row.subject?.account === account && row.subject.mode === 'live' && price !== null) {
        billed += minorUnits(price)
      }
    }
    if (billed !== minorUnits(spent)) {
      violations.add('the spend differs from the messages', `${account}: ${spent.amount}`)
    }
    const events = store
      .events({ account, mode: 'live' })
      .filter(({ type }) => type === 'account.spend_threshold')
    if (events.length !== (told ? 1 : 0)) {
      violations.add('a spend threshold is not reported once', `${account}: ${events.length} events`)
    }
  }
  return count
}
