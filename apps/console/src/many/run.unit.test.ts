import { describe, expect, it } from 'vitest'
import {
  drive,
  failedAgain,
  goOn,
  interrupted,
  MOST_FAILURES_IN_A_ROW,
  newRun,
  type Outcome,
  parseRun,
  type Run,
  stop,
} from './run.ts'

const ids = (count: number): ReadonlyArray<string> => Array.from({ length: count }, (_, i) => `id-${i}`)
const IS = { kind: 'resend', of: 'we_1', by: 'vera' } as const
const DONE: Outcome = { kind: 'done' }

/** Drives a run with items that `outcome` answers, without waits. Time is the sum of the sleeps of one worker. */
const driven = async (
  first: Run,
  outcome: (id: string, run: () => Run, save: (run: Run) => void) => Outcome | Promise<Outcome>,
) => {
  let current = first
  const states: Array<Run> = []
  const performed: Array<string> = []
  const sleeps: Array<number> = []
  let most = 0
  const save = (run: Run): void => {
    current = run
    states.push(run)
    most = Math.max(most, run.begun.length)
  }
  const run = (): Run => current
  await drive({
    run,
    save,
    perform: async (id) => {
      performed.push(id)
      return outcome(id, run, save)
    },
    sleep: async (ms) => {
      sleeps.push(ms)
    },
  })
  return { run: current, states, performed, sleeps, most }
}

describe('an action on many items', () => {
  it('performs each of them once, some at a time, with a bounded rate', async () => {
    const { most, performed, run, sleeps } = await driven(newRun(IS, ids(20)), () => DONE)
    expect(run).toMatchObject({ phase: 'ended', total: 20, done: 20, waiting: [], begun: [], failures: [] })
    expect(performed.toSorted()).toEqual(ids(20).toSorted())
    expect(most).toBe(3)
    // Three workers, each of which begins an item in 300 ms at most: ten in a second.
    expect(sleeps).toEqual(Array.from({ length: 20 }, () => 300))
  })

  it('keeps the order of dead letters, one at a time', async () => {
    const retry = newRun({ kind: 'retry', of: null, by: 'vera' }, ids(5))
    const { most, performed, sleeps } = await driven(retry, () => DONE)
    expect([most, performed, sleeps]).toEqual([1, ids(5), Array.from({ length: 5 }, () => 100)])
  })

  it('stores an item before it begins', async () => {
    let run: Run = newRun(IS, ids(1))
    const stored: Array<ReadonlyArray<string>> = []
    await drive({
      run: () => run,
      save: (next) => {
        run = next
      },
      perform: async () => {
        stored.push(run.begun)
        return DONE
      },
      sleep: async () => {},
    })
    expect(stored).toEqual([['id-0']])
  })

  it('keeps the items that fail with their reason, and goes on', async () => {
    const { run } = await driven(newRun(IS, ids(5)), (id) =>
      id === 'id-1' ? { kind: 'failed', message: 'It was retried.' } : DONE,
    )
    expect(run).toMatchObject({ phase: 'ended', done: 4 })
    expect(run.failures).toEqual([{ id: 'id-1', message: 'It was retried.' }])
  })

  it('performs those that failed once more, and no others', async () => {
    const first = await driven(newRun(IS, ids(5)), (id) =>
      id === 'id-1' || id === 'id-3' ? { kind: 'failed', message: 'no answer' } : DONE,
    )
    const again = await driven(failedAgain(first.run), () => DONE)
    expect(again.performed).toEqual(['id-1', 'id-3'])
    expect(again.run).toMatchObject({ phase: 'ended', total: 5, done: 5, failures: [] })
  })

  it('waits while the hub is busy, but not for ever', async () => {
    let tries = 0
    const busy: Outcome = { kind: 'busy', message: 'Four are in progress.' }
    const once = await driven(newRun(IS, ids(1)), () => (++tries === 1 ? busy : DONE))
    expect(once.run).toMatchObject({ phase: 'ended', done: 1 })
    const always = await driven(newRun(IS, ids(1)), () => busy)
    expect(always.run.failures).toEqual([{ id: 'id-0', message: 'Four are in progress.' }])
    expect(always.performed).toHaveLength(21)
  })

  it('stops when people stop it, after the items in progress, and goes on later', async () => {
    const { run } = await driven(newRun(IS, ids(10)), (id, current, save) => {
      if (id === 'id-2') save(stop(current()))
      return DONE
    })
    expect(run.phase).toBe('stopped')
    expect(run.done + run.waiting.length).toBe(10)
    expect(run.waiting.length).toBeGreaterThan(0)
    const rest = await driven(goOn(run), () => DONE)
    expect(rest.run).toMatchObject({ phase: 'ended', done: 10 })
    expect(rest.performed).toEqual(run.waiting)
  })

  it('stops by itself when one after another fails', async () => {
    const { performed, run } = await driven(newRun(IS, ids(100)), () => ({ kind: 'failed', message: 'no' }))
    expect(run.phase).toBe('failing')
    expect(performed.length).toBeGreaterThanOrEqual(MOST_FAILURES_IN_A_ROW)
    // Those that were in progress at that time.
    expect(performed.length).toBeLessThan(MOST_FAILURES_IN_A_ROW + 3)
    expect(run.failures.length + run.waiting.length).toBe(100)
    expect(goOn(run).phase).toBe('running')
  })

  it('is interrupted by the end of the session, and loses nothing', async () => {
    const { run } = await driven(newRun(IS, ids(10)), (id) =>
      Number(id.slice(3)) < 4 ? DONE : { kind: 'signed_out' },
    )
    expect(run).toMatchObject({ phase: 'interrupted', done: 4, begun: [], failures: [] })
    expect(run.waiting.toSorted()).toEqual(ids(10).slice(4).toSorted())
  })
})

describe('the run of a page that was closed', () => {
  it('says what is done, what waits, and what nobody knows', () => {
    const run: Run = { ...newRun(IS, ids(6)), done: 2, begun: ['id-2', 'id-3'], waiting: ['id-4', 'id-5'] }
    const later = interrupted(parseRun(JSON.stringify(run))!)
    expect(later).toMatchObject({
      phase: 'interrupted',
      done: 2,
      begun: [],
      waiting: ['id-4', 'id-5'],
      unknown: ['id-2', 'id-3'],
    })
    for (const phase of ['ended', 'stopped', 'failing'] as const) {
      const atRest = { ...run, phase, begun: [] }
      expect(interrupted(atRest)).toEqual(atRest)
    }
    expect(goOn({ ...later, waiting: [] }).phase).toBe('ended')
  })

  it('is ignored if another version has written it', () => {
    for (const text of [
      null,
      '',
      'null',
      '{',
      '7',
      '{"kind":"drop"}',
      JSON.stringify({ ...newRun(IS, ids(1)), waiting: [1] }),
      JSON.stringify({ ...newRun(IS, ids(1)), failures: [{}] }),
    ]) {
      expect(parseRun(text), String(text)).toBeNull()
    }
    const run = newRun(IS, ids(2))
    expect(parseRun(JSON.stringify(run))).toEqual(run)
  })
})
