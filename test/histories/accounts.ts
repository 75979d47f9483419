/** The accounts of a run and their limits. Hub staff create them before the load. */
import type { AccountLimits } from './checker/history.ts'

export interface RunAccount extends AccountLimits {
  readonly key: string
}

/** Hundredths of the currency for a part. */
const PRICES = { otp: 100, service: 150 } as const
const UNLIMITED = 100_000_000_000

/** `main` and `other` share the load. `limited` meets its spend limit and its flood windows. */
export const ACCOUNTS: ReadonlyArray<AccountLimits> = [
  {
    name: 'main',
    prices: PRICES,
    spendLimit: UNLIMITED,
    pauseSeconds: 60,
    perHour: 5,
    subscriptions: ['main-1', 'main-2'],
  },
  {
    name: 'other',
    prices: PRICES,
    spendLimit: UNLIMITED,
    pauseSeconds: 60,
    perHour: 5,
    subscriptions: ['other-1'],
  },
  {
    name: 'limited',
    prices: PRICES,
    spendLimit: 30_000,
    pauseSeconds: 5,
    perHour: 8,
    subscriptions: ['limited-1'],
  },
]

/** An amount as the API writes it, such as `12.50`, in hundredths. */
export const hundredths = (amount: string): number => Math.round(Number(amount) * 100)
export const amountOf = (value: number): string => (value / 100).toFixed(2)
