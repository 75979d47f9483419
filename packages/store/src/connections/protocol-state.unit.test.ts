import { describe, expect, it } from 'vitest'
import { ProtocolState } from './protocol-state.ts'

const message = (type: string, body: Buffer = Buffer.alloc(0)) => {
  const header = Buffer.alloc(5)
  header.write(type, 'latin1')
  header.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([header, body])
}
const int32 = (...values: ReadonlyArray<number>) =>
  Buffer.concat(
    values.map((value) => {
      const octets = Buffer.alloc(4)
      octets.writeInt32BE(value)
      return octets
    }),
  )

const startup = int32(12, 196_608, 0)
const ready = (status = 'I') => message('Z', Buffer.from(status))
const keyData = message('K', int32(4711, 1))
const login = Buffer.concat([message('R', int32(0)), keyData, ready()])
const sync = message('S')
const execute = Buffer.concat([message('B', Buffer.from('Sync QSQ')), message('E', int32(0)), sync])

const loggedIn = () => {
  const state = new ProtocolState()
  state.onSent(startup)
  state.onReceived(login)
  return state
}

describe('a connection to PostgreSQL', () => {
  it('waits until its login is complete', () => {
    const state = new ProtocolState()
    expect(state.isWaiting()).toBe(false)
    state.onSent(startup)
    expect([state.isWaiting(), state.pid, state.readyAt]).toEqual([true, null, null])
    state.onReceived(message('R', int32(0)))
    expect(state.isWaiting()).toBe(true)
    state.onReceived(Buffer.concat([keyData, ready()]))
    expect([state.isWaiting(), state.pid]).toEqual([false, 4711])
    expect(state.readyAt).not.toBeNull()
  })

  it('waits until each of its pipelined statements is answered', () => {
    const state = loggedIn()
    state.onSent(Buffer.concat([execute, execute]))
    state.onSent(message('Q', Buffer.from('SELECT 1\0')))
    for (let answered = 0; answered < 3; answered++) {
      expect(state.isWaiting()).toBe(true)
      state.onReceived(Buffer.concat([message('D', Buffer.from('Z with an S')), ready()]))
    }
    expect(state.isWaiting()).toBe(false)
  })

  it('waits for the answer to a flush, which ends no statement', () => {
    const state = loggedIn()
    state.onSent(Buffer.concat([message('P'), message('D'), message('H')]))
    expect(state.isWaiting()).toBe(true)
    state.onReceived(message('t'))
    expect(state.isWaiting()).toBe(false)
  })

  it('is read the same, however TCP splits the messages', () => {
    const state = new ProtocolState()
    state.onSent(startup)
    for (const octet of login) state.onReceived(Buffer.from([octet]))
    expect([state.isWaiting(), state.pid]).toEqual([false, 4711])
    state.onSent(execute)
    const answer = Buffer.concat([message('D', Buffer.alloc(100, 'Z')), ready()])
    for (const [at, octet] of answer.entries()) {
      expect(state.isWaiting()).toBe(true)
      expect(at).toBeLessThan(answer.length)
      state.onReceived(Buffer.from([octet]))
    }
    expect(state.isWaiting()).toBe(false)
  })

  it('may hold locks while it waits or is in a transaction', () => {
    const state = loggedIn()
    expect(state.mayHoldLocks()).toBe(false)
    state.onSent(execute)
    expect(state.mayHoldLocks()).toBe(true)
    state.onReceived(ready('T'))
    expect([state.isWaiting(), state.mayHoldLocks()]).toEqual([false, true])
    state.onSent(execute)
    state.onReceived(ready('I'))
    expect(state.mayHoldLocks()).toBe(false)
  })
})
