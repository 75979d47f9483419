/** The store in memory passes the contract suite. */
import { moneyOf, spendPeriodOf } from '@hub/domain'
import { OutboxStore } from '@hub/outbox'
import { outboxStoreContract, TestOutbox } from '@hub/outbox/contract'
import { Effect, Layer } from 'effect'
import { journalName, MemoryStore } from '../testing/memory-store.ts'
import { projectionStoreContract, TestProjection } from './projection-store.contract.ts'
import { ProjectionStore } from './projection-store.port.ts'

projectionStoreContract(
  'memory',
  Layer.unwrap(
    Effect.sync(() => {
      const subscribed = new Set<string>()
      const store = new MemoryStore({
        now: () => Date.now(),
        isSubscribed: (journal) => subscribed.has(journalName(journal)),
      })
      const period = () => spendPeriodOf(Date.now()).day
      const sums = (
        table: typeof store.tables.dailyStats,
        account: string,
        shown: ReadonlyArray<number> = [],
      ) =>
        [...table].flatMap(([key, { accepted, delivered, parts, rejected, sent, units }]) => {
          const columns = key.split(' ')
          if (columns[1] !== account || accepted === 0) return []
          const names = shown.map((at) => `${columns[at] ?? ''} `).join('')
          return [
            `${names}${accepted}/${sent}/${delivered}/${rejected} ${parts} ${moneyOf(units, 'RUB').amount}`,
          ]
        })
      return Layer.merge(
        Layer.succeed(ProjectionStore)(store.shape()),
        Layer.succeed(TestProjection)({
          subscribe: (journal) => Effect.sync(() => void subscribed.add(journalName(journal))),
          addToInbox: (entries) => Effect.sync(() => store.addEntries('event inbox', entries)),
          spend: (account, spent, limit) =>
            Effect.sync(() => {
              store.charge({ account, period: period(), amount: { amount: spent, currency: 'RUB' } })
              store.spendLimits.set(account, {
                limit: { amount: limit, currency: 'RUB' },
                softThresholdPercent: 80,
              })
            }),
          spent: (account) =>
            Effect.sync(() => store.tables.spendPeriods.get(`${account} ${period()}`)?.spent.amount ?? ''),
          events: (journal) => Effect.sync(() => store.events(journal)),
          dailyStats: (account) => Effect.sync(() => sums(store.tables.dailyStats, account)),
          hourlyStats: (account) => Effect.sync(() => sums(store.tables.hourlyStats, account, [3])),
          rangeStats: (account) => Effect.sync(() => sums(store.tables.rangeStats, account, [3, 4, 5])),
          charges: (account) =>
            Effect.sync(() =>
              [...store.tables.charges.values()]
                .filter((charge) => charge.account === account)
                .map(({ amount, kind }) => `${kind} ${amount.amount}`),
            ),
          outcomesDue: Effect.sync(() => [...store.tables.outcomesDue.values()].flat()),
          status: (messageId) => Effect.sync(() => store.tables.messages.get(messageId)?.status ?? null),
        }),
      )
    }),
  ),
)

outboxStoreContract(
  'the memory of the projection',
  Layer.unwrap(
    Effect.sync(() => {
      const store = new MemoryStore({ now: () => Date.now(), isSubscribed: () => true })
      return Layer.merge(
        Layer.succeed(OutboxStore)(store.outbox()),
        Layer.succeed(TestOutbox)({
          insert: (records) =>
            Effect.sync(() => {
              const row = store.nextOutboxRow()
              store.tables.outbox.set(String(row), { records, createdAt: store.now() })
              return row
            }),
        }),
      )
    }),
  ),
)
