/** What recipients write: numbers in one form, and parts put together. */
import type { Concatenation } from './text.ts'

/**
 * A number as the hub writes it (E.164), or `null` where it is none: a short number, a name. The hub's recipients are Russian
 * mobiles, so that their national forms are known too. Source: contract, General.
 */
export const numberOf = (address: string, typeOfNumber: number): string | null => {
  const digits = /^\+?(\d{5,15})$/u.exec(address)?.[1]
  if (digits === undefined) return null
  if (/^79\d{9}$/u.test(digits) || address.startsWith('+')) return `+${digits}`
  if (/^89\d{9}$/u.test(digits)) return `+7${digits.slice(1)}`
  if (/^9\d{9}$/u.test(digits) && typeOfNumber !== 1) return `+7${digits}`
  return typeOfNumber === 1 && digits.length >= 8 ? `+${digits}` : null
}

/** One part of a message that somebody wrote. `key` tells whose it is: writer, address and reference. */
export interface InboundPart<A> {
  readonly key: string
  readonly concatenation: Concatenation
  readonly text: string
  readonly held: A
}

/** Parts of one message, in order. */
export interface Joined<A> {
  readonly text: string
  readonly held: ReadonlyArray<A>
}

/**
 * Puts parts together. A part is not acknowledged before its message is complete and taken: what is here when the process
 * ends comes again. So a message that stays incomplete is given up in time (`expired`), and too many at once are
 * refused (`full`).
 */
export interface Joiner<A> {
  /** The message, when this part completes it. A part that comes twice counts once, and both are held. */
  readonly add: (part: InboundPart<A>, now: number) => Joined<A> | 'waiting' | 'full'
  /** What has waited too long, as far as it is known. */
  readonly expired: (now: number) => ReadonlyArray<Joined<A>>
  /** Forgets what was held for somebody who is gone. */
  readonly drop: (isGone: (held: A) => boolean) => void
  /** Parts held. */
  readonly size: () => number
}

export const makeJoiner = <A>(options: { readonly waitMs: number; readonly maxParts: number }): Joiner<A> => {
  interface Waiting {
    readonly parts: Map<number, { readonly text: string; held: ReadonlyArray<A> }>
    readonly since: number
  }
  const waiting = new Map<string, Waiting>()
  const size = () => {
    let sum = 0
    for (const { parts } of waiting.values()) for (const { held } of parts.values()) sum += held.length
    return sum
  }
  const take = (key: string, { parts }: Waiting): Joined<A> => {
    waiting.delete(key)
    const inOrder = Array.from(parts)
      .sort(([a], [b]) => a - b)
      .map(([, part]) => part)
    return { text: inOrder.map(({ text }) => text).join(''), held: inOrder.flatMap(({ held }) => held) }
  }
  return {
    add: ({ concatenation, held, key: whose, text }, now) => {
      const { part, parts: total } = concatenation
      if (total <= 1 || part < 1 || part > total) return { text, held: [held] }
      if (size() >= options.maxParts) return 'full'
      const key = `${whose}/${total}`
      const found = waiting.get(key) ?? { parts: new Map(), since: now }
      waiting.set(key, found)
      found.parts.set(part, { text, held: [...(found.parts.get(part)?.held ?? []), held] })
      return found.parts.size === total ? take(key, found) : 'waiting'
    },
    expired: (now) => {
      const over: Array<Joined<A>> = []
      // They are in the order of their first part.
      for (const [key, message] of waiting) {
        if (now - message.since < options.waitMs) break
        over.push(take(key, message))
      }
      return over
    },
    drop: (isGone) => {
      for (const [key, { parts }] of waiting) {
        for (const [index, part] of parts) {
          part.held = part.held.filter((held) => !isGone(held))
          if (part.held.length === 0) parts.delete(index)
        }
        if (parts.size === 0) waiting.delete(key)
      }
    },
    size,
  }
}
