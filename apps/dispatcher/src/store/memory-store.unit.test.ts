/** The store in memory passes the contract suite. */
import { encodeId } from '@hub/domain'
import { Effect, Layer } from 'effect'
import { DispatcherTables, type LookedUpMessage, memoryStore } from '../testing/memory-store.ts'
import { dispatcherStoreContract, TestTables } from './store.contract.ts'
import { DispatcherStore } from './store.port.ts'

dispatcherStoreContract(
  'in memory',
  Layer.unwrap(
    Effect.sync(() => {
      const messages = new Map<string, LookedUpMessage>()
      const positions = new Map<string, number>()
      const tables = new DispatcherTables()
      const inbound = new Map<string, string>()
      const store = memoryStore(
        { messages, position: (topic, shard) => positions.get(`${topic}/${shard}`) ?? 0 },
        tables,
      )
      return Layer.merge(
        Layer.succeed(DispatcherStore)({
          ...store,
          storeInbound: (records) => {
            for (const { id, recipient } of records) inbound.set(id, recipient)
            return store.storeInbound(records)
          },
        }),
        Layer.succeed(TestTables)({
          addMessage: ({ reason, recipient, status, uuid }) =>
            Effect.sync(() => {
              const id = encodeId('msg', uuid)
              messages.set(id, {
                id,
                accepted: { recipient, class: 'otp' },
                state: { status, reason, attempts: 1, seen: false, operator: null, operatorIds: [] },
              })
            }),
          addOperatorId: (operatorId, uuid) =>
            Effect.sync(() => {
              const message = messages.get(encodeId('msg', uuid))!
              const operatorIds = [...message.state!.operatorIds, operatorId]
              messages.set(message.id, {
                ...message,
                state: { ...message.state!, operator: 'http', operatorIds },
              })
            }),
          setPosition: (topic, shard, position) =>
            Effect.sync(() => void positions.set(`${topic}/${shard}`, position)),
          optOut: (recipient, at) => Effect.sync(() => tables.optOut(recipient, at)),
          readOptOut: (recipient) => Effect.sync(() => tables.optOuts.get(recipient) ?? null),
          setWeight: (account, mode, weight) =>
            Effect.sync(() => void tables.weights.push({ account: encodeId('acc', account), mode, weight })),
          readInbound: (recipient) =>
            Effect.sync(() => [...tables.inbound].filter((id) => inbound.get(id) === recipient)),
        }),
      )
    }),
  ),
)
