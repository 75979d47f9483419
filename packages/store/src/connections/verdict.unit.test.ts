import { describe, expect, it } from 'vitest'
import { type Session, verdictOn } from './verdict.ts'

const waiting = { pid: 7, application: 'hub-test', openedMs: 60_000, readyMs: 59_900 }
const session = (changes: Partial<Session>): Session => ({
  pid: 7,
  application: 'hub-test',
  state: 'active',
  waitEventType: null,
  ageMs: 59_950,
  ...changes,
})

describe('a connection that waits for an answer', () => {
  it.each([
    ['PostgreSQL executes', 'working', [session({})]],
    ['PostgreSQL waits for a lock', 'working', [session({ waitEventType: 'Lock' })]],
    ['PostgreSQL does not say what it does', 'working', [session({ state: 'disabled' })]],
    ['PostgreSQL has answered', 'lost', [session({ state: 'idle', waitEventType: 'Client' })]],
    ['PostgreSQL waits in a transaction', 'lost', [session({ state: 'idle in transaction' })]],
    ['PostgreSQL cannot send its answer', 'lost', [session({ waitEventType: 'Client' })]],
    ['PostgreSQL has no such session', 'gone', []],
    ['another session has its process id', 'gone', [session({ ageMs: 5000 })]],
    ['an older session of another server has its process id', 'gone', [session({ ageMs: 90_000 })]],
    ['another program has its process id', 'gone', [session({ application: 'psql' })]],
  ] as const)('if %s is %s', (_title, verdict, sessions) => {
    expect(verdictOn(waiting, sessions)).toBe(verdict)
  })
})
