import { assert, describe, it } from '@effect/vitest'
import { Effect, Redacted } from 'effect'
import { eventually } from '@hub/testkit'
import { operatorContract, submissionOf } from '../port.contract.ts'
import { type InboundMessage, type OperatorReport, ReportSink, ReportsNotTaken } from '../port.ts'
import { SMPP_DEFAULTS, type SmppSettings } from './settings.ts'
import { makeSmppOperator } from './smpp.ts'
import { type Behaviour, makeTestCentre, receiptOf } from './testing/centre.ts'

const yes = () => true
/** Nothing here takes long; it only bounds what hangs on a busy machine. */
const PATIENCE = { withinMs: 30_000 }

interface Taken {
  readonly reports: Array<OperatorReport>
  readonly inbound: Array<InboundMessage>
  /** So many takings fail. */
  failures: number
  attempts: number
}

const collecting = () => {
  const taken: Taken = { reports: [], inbound: [], failures: 0, attempts: 0 }
  const attempt = (take: () => void) =>
    Effect.suspend(() => {
      taken.attempts++
      if (taken.failures-- > 0) return Effect.fail(new ReportsNotTaken({ detail: 'down' }))
      return Effect.sync(take)
    })
  const sink = ReportSink.of({
    take: (reports) => attempt(() => void taken.reports.push(...reports)),
    takeInbound: (messages) => attempt(() => void taken.inbound.push(...messages)),
  })
  return { taken, sink }
}

const FAST: Partial<SmppSettings> = { binds: 1, reconnect: { baseMs: 5, maxMs: 50 }, retryMs: 20 }

const operatorAt = (
  port: number,
  sink: ReportSink['Service'],
  more: Partial<SmppSettings> = {},
  url = `smpp://hub@127.0.0.1:${port}`,
) =>
  makeSmppOperator({
    ...SMPP_DEFAULTS,
    ...FAST,
    url: new URL(url),
    password: Redacted.make('secret'),
    ...more,
  }).pipe(Effect.provideService(ReportSink, sink))

/** An operator, its centre, and what it told; bound when it is given. */
const world = (behaviour: Behaviour = {}, more: Partial<SmppSettings> = {}) =>
  Effect.gen(function* () {
    const centre = yield* makeTestCentre(behaviour)
    const { sink, taken } = collecting()
    const operator = yield* operatorAt(centre.port, sink, more)
    return { centre, operator, taken, sink }
  })

operatorContract(
  'smpp',
  Effect.gen(function* () {
    let id = 0
    const { operator, taken } = yield* world({
      submit_sm: (connection, pdu) => {
        id++
        connection.answer(pdu, 0, { message_id: String(id) })
        connection.send('deliver_sm', receiptOf(String(id)))
      },
    })
    return {
      operator,
      reports: () => taken.reports,
      reported: (wanted) => Effect.promise(() => eventually(() => taken.reports.find(wanted), PATIENCE)),
    }
  }),
)

describe('the smpp operator on real sockets', () => {
  it.live('hands over what SMPP calls a message', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world()
      const [outcome] = yield* operator.submit([submissionOf('msg_a', { validitySeconds: 3725 })], yes)
      assert.deepStrictEqual(outcome, { type: 'accepted', operatorIds: ['1'] })
      const { pdu } = centre.submits()[0]!
      const fields = ['source_addr_ton', 'source_addr_npi', 'dest_addr_ton', 'dest_addr_npi', 'esm_class']
      assert.deepStrictEqual(fields.map(pdu.number), [5, 0, 1, 1, 0])
      assert.strictEqual(pdu.text('source_addr'), 'HUB')
      assert.strictEqual(pdu.text('destination_addr'), '79001234567')
      assert.strictEqual(pdu.number('registered_delivery'), 1)
      assert.strictEqual(pdu.text('validity_period'), '000000010205000R')
      assert.strictEqual(Buffer.from(pdu.octets('short_message')!).toString(), 'Code 1234')
      const bind = centre.requests[0]!.pdu
      assert.strictEqual(bind.command, 'bind_transceiver')
      assert.strictEqual(bind.text('system_id'), 'hub')
      assert.strictEqual(bind.text('password'), 'secret')
      assert.strictEqual(bind.number('interface_version'), 0x34)
    }).pipe(Effect.scoped),
  )
})
