import { Context, Effect, Layer } from 'effect'
import { CONTRACT_PARTITIONS, portContract, TestKafka } from '../../port.contract.ts'
import type { BrokerState } from '../memory.ts'
import { SimulatedBroker } from './broker.ts'
import type { SimulatedHost } from './host.ts'
import { simulatedKafka } from './simulated-kafka.ts'

let counter = 0

const after = (ms: number, act: () => void) => {
  const timer = setTimeout(act, ms)
  return () => clearTimeout(timer)
}

/** A host with the real clock, whose requests fail only while the broker does. */
const makeHost = () => {
  let state: BrokerState = 'up'
  const host: SimulatedHost = {
    after,
    wake: (act) => void setImmediate(act),
    choose: () => 1,
    request: ({ onAnswer, onFailure, serve, timeoutMs }) => {
      if (state === 'refusing') return void setImmediate(() => onFailure('refused', false))
      let isOver = false
      const end = (act: () => void) => {
        if (isOver) return
        isOver = true
        cancel()
        act()
      }
      const cancel = after(timeoutMs, () => end(() => onFailure('timeout', true)))
      if (state === 'hanging') return
      setImmediate(() =>
        serve(
          (value) => void setImmediate(() => end(() => onAnswer(value))),
          () => true,
        ),
      )
    },
  }
  const set = (next: BrokerState) =>
    Effect.sync(() => {
      state = next
    })
  return { host, set }
}

const layer = Layer.effectContext(
  Effect.sync(() => {
    const { host, set } = makeHost()
    const broker = new SimulatedBroker(CONTRACT_PARTITIONS, { now: () => Date.now(), after })
    return simulatedKafka(broker, host).pipe(
      Context.add(TestKafka, {
        topics: (count) => Effect.sync(() => Array.from({ length: count }, () => `topic-${counter++}`)),
        group: Effect.sync(() => `group-${counter++}`),
        set,
      }),
    )
  }),
)

portContract('simulated', layer)
