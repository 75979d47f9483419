/** The SMSC: the SMPP 3.4 server of the operator simulator. See README.md. */
import { createServer, type Server } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Operator, PartAnswer } from '../operator.ts'
import { isSame } from '../privacy.ts'
import { codec, type Pdu, STATUS } from './codec.ts'
import { type Deliveries, makeDeliveries, type Receiver } from './deliveries.ts'
import { concatenationOf, makeReassembly, type Reassembly } from './reassembly.ts'
import type { State } from './rules.ts'
import { makeSession, type Session } from './session.ts'

/** SMPP allows 15 characters for the system id and 8 for the password. */
export interface Credentials {
  readonly systemId: string
  readonly password: string
}

const BINDS = {
  bind_transmitter: { state: 'BOUND_TX', receives: false },
  bind_receiver: { state: 'BOUND_RX', receives: true },
  bind_transceiver: { state: 'BOUND_TRX', receives: true },
} as const satisfies Readonly<Record<string, { readonly state: State; readonly receives: boolean }>>
type BindCommand = keyof typeof BINDS

/** A connection without a bind is closed after this time. */
const BIND_WITHIN_MS = 10_000

/** A session, from its connection to its end. */
interface Bind {
  readonly session: Session
  bound: BindCommand | null
  receiver: Receiver | null
}

export interface Smsc {
  readonly server: Server
  /** The types of the current binds. */
  readonly binds: () => ReadonlyArray<BindCommand>
  /** Resets all connections and returns their number. */
  readonly dropBinds: () => number
  readonly receive: Deliveries['receive']
  readonly unacknowledged: Deliveries['unacknowledged']
  /** The number of messages with missing parts. */
  readonly unfinished: () => number
  /** The number of requests that the standard refuses. */
  readonly refused: () => number
  /** Sends receipts and inbound messages until the signal, then closes. */
  readonly run: (signal: AbortSignal) => Promise<void>
}

const isBindCommand = (command: string): command is BindCommand => Object.hasOwn(BINDS, command)

/** The E.164 number of an address (digits with or without a plus), or null. */
const numberOf = (address: string | undefined): string | null => {
  const digits = /^\+?(\d{5,15})$/u.exec(address ?? '')?.[1]
  return digits === undefined ? null : `+${digits}`
}

/** The text of a part. Binary data is returned in hexadecimal. */
const textOf = ({ message_payload, short_message }: Pdu): string => {
  const message = [short_message, message_payload].find((one) => one !== undefined && one.message.length > 0)
  return typeof message?.message === 'string' ? message.message : (message?.message.toString('hex') ?? '')
}

/** Serves an operator over SMPP. The caller listens on `server`. */
export const makeSmsc = (
  operator: Operator,
  credentials: Credentials,
  /** For tests: the time until a delivery without a response is repeated, ms. */
  answerWithinMs?: number,
): Smsc => {
  const sessions = new Set<Bind>()
  const deliveries: Deliveries = makeDeliveries(operator, answerWithinMs)
  const reassembly: Reassembly = makeReassembly()
  const refusedRules = new Set<string>()
  let refusals = 0

  const bind = (state: Bind, command: BindCommand, pdu: Pdu): void => {
    const answer = (command_status: number): void =>
      void state.session.send(pdu.response({ command_status, system_id: 'simulator' }))
    if (!isSame(pdu.system_id ?? '', credentials.systemId)) return answer(STATUS.invalidSystemId)
    if (!isSame(pdu.password ?? '', credentials.password)) return answer(STATUS.invalidPassword)
    state.bound = command
    answer(STATUS.ok)
    if (BINDS[command].receives) state.receiver = deliveries.join(state.session)
  }

  const refuse = ({ session }: Bind, pdu: Pdu, command_status: number): void =>
    void session.send(pdu.response({ command_status }))

  const answerPart = (state: Bind, pdu: Pdu, answer: PartAnswer): void => {
    switch (answer.status) {
      case 'throttled':
        return refuse(state, pdu, STATUS.throttled)
      case 'rejected':
        return refuse(state, pdu, STATUS.spam)
      case 'accepted': {
        const isEarly = operator.behaviour().receipts_before_answer
        for (const receipt of answer.receipts) {
          const isSent = isEarly && deliveries.sendNow(receipt, state.receiver)
          if (!isSent) operator.queueReceipt(receipt, receipt.due)
        }
        if (answer.answer === 'dropped') state.session.socket.resetAndDestroy()
        if (answer.answer === 'never') state.session.abandon(pdu)
        if (answer.answer === 'sent') state.session.send(pdu.response({ message_id: answer.operatorId }))
      }
    }
  }

  const submit = async (state: Bind, pdu: Pdu): Promise<void> => {
    const { window } = operator.behaviour()
    if (state.session.outstanding('submit_sm') > window) return refuse(state, pdu, STATUS.throttled)
    const to = numberOf(pdu.destination_addr)
    if (to === null) return refuse(state, pdu, STATUS.invalidDestination)
    const wait = operator.behaviour().submit_delay_ms
    if (wait > 0) await delay(wait)
    const sender = pdu.source_addr ?? ''
    const text = textOf(pdu)
    const wantsReceipt = ((pdu.registered_delivery ?? 0) & 0x03) === 1
    const concatenation = concatenationOf(pdu)
    const { sequence = 1, total = 1 } = concatenation ?? {}
    const isLastOfSeveral = total > 1 && sequence === total
    const answer = operator.submitPart({ to, sender, wantsReceipt, isLastOfSeveral }, Date.now())
    if (answer.status === 'rejected') operator.recordMessage(to, text, [])
    if (answer.status === 'accepted') {
      const whole = reassembly.add({ to, sender, text, operatorId: answer.operatorId, concatenation })
      if (whole !== null) operator.recordMessage(whole.to, whole.text, whole.operatorIds)
    }
    answerPart(state, pdu, answer)
  }

  const handle = (state: Bind, pdu: Pdu): void => {
    const { command } = pdu
    if (isBindCommand(command)) return bind(state, command, pdu)
    if (command === 'submit_sm') return void submit(state, pdu)
    if (command === 'enquire_link') return void state.session.send(pdu.response())
    if (command === 'unbind') {
      state.session.send(pdu.response())
      state.session.socket.end()
      return
    }
    const status = { command_status: STATUS.invalidCommand, sequence_number: pdu.sequence_number }
    const hasAnswer = Object.hasOwn(codec.commands, `${command}_resp`)
    state.session.send(hasAnswer ? pdu.response(status) : new codec.PDU('generic_nack', status))
  }

  const server = createServer((socket) => {
    const bindTimer = setTimeout(() => {
      if (state.bound === null) socket.destroy()
    }, BIND_WITHIN_MS)
    const state: Bind = {
      bound: null,
      receiver: null,
      session: makeSession(socket, {
        state: () => (state.bound === null ? 'OPEN' : BINDS[state.bound].state),
        onArrival: () => {
          if (state.receiver !== null) state.receiver.receivedAt = Date.now()
        },
        onRequest: (pdu) => handle(state, pdu),
        onRefused: ({ rule, section }) => {
          refusals++
          // The first one of each rule is enough to find the fault.
          if (refusedRules.has(rule)) return
          refusedRules.add(rule)
          console.error(`SMPP: a request was refused (${section}: ${rule})`)
        },
        onClose: () => {
          clearTimeout(bindTimer)
          sessions.delete(state)
          if (state.receiver !== null) deliveries.leave(state.receiver)
        },
      }),
    }
    sessions.add(state)
  })

  const dropBinds = (): number => {
    const count = sessions.size
    for (const { session } of sessions) session.socket.resetAndDestroy()
    return count
  }

  return {
    server,
    binds: () => [...sessions].flatMap(({ bound }) => (bound === null ? [] : [bound])),
    dropBinds,
    receive: deliveries.receive,
    unacknowledged: deliveries.unacknowledged,
    unfinished: reassembly.unfinished,
    refused: () => refusals,
    run: async (signal) => {
      await deliveries.run(signal)
      server.close()
      for (const { session } of sessions) session.destroy()
    },
  }
}
