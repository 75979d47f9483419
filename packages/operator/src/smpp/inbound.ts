/** Inbound texts: normalizes the number of the sender and reassembles multipart texts. */
import type { Concatenation, Encoded } from './text.ts'

/**
 * Converts an SMPP address to E.164, also from the national forms of Russian mobile numbers.
 * Returns `null` for a short number or a name.
 */
export const parsePhoneNumber = (address: string, typeOfNumber: number): string | null => {
  const digits = /^\+?(\d{5,15})$/u.exec(address)?.[1]
  if (digits === undefined) return null
  if (/^79\d{9}$/u.test(digits) || address.startsWith('+')) return `+${digits}`
  if (/^89\d{9}$/u.test(digits)) return `+7${digits.slice(1)}`
  if (/^9\d{9}$/u.test(digits) && typeOfNumber !== 1) return `+7${digits}`
  return typeOfNumber === 1 && digits.length >= 8 ? `+${digits}` : null
}

/** One part of an inbound text. `key` identifies the text: sender, address and reference. */
interface InboundPart<A> {
  readonly key: string
  readonly concatenation: Concatenation
  readonly body: Encoded
  readonly item: A
}

/** The parts of a text in order, with their items. */
export interface Reassembled<A> {
  readonly bodies: ReadonlyArray<Encoded>
  readonly items: ReadonlyArray<A>
}

/**
 * Reassembles multipart texts in memory. A part is acknowledged only when its text is stored, so
 * the SMSC repeats unstored parts. Therefore incomplete texts expire, and the parts are limited.
 */
interface Reassembler<A> {
  /** Returns the text if this part completes it. A repeated part adds only its item. */
  readonly add: (part: InboundPart<A>, now: number) => Reassembled<A> | 'waiting' | 'full'
  /** Removes and returns the texts that waited too long, without their missing parts. */
  readonly expired: (now: number) => ReadonlyArray<Reassembled<A>>
  readonly discard: (matches: (item: A) => boolean) => void
  readonly size: () => number
}

export const makeReassembler = <A>(options: {
  readonly waitMs: number
  readonly maxParts: number
}): Reassembler<A> => {
  interface Incomplete {
    readonly parts: Map<number, { readonly body: Encoded; items: ReadonlyArray<A> }>
    readonly since: number
  }
  const incomplete = new Map<string, Incomplete>()
  const size = () => {
    let sum = 0
    for (const { parts } of incomplete.values()) for (const { items } of parts.values()) sum += items.length
    return sum
  }
  const remove = (key: string, { parts }: Incomplete): Reassembled<A> => {
    incomplete.delete(key)
    const inOrder = Array.from(parts)
      .sort(([a], [b]) => a - b)
      .map(([, part]) => part)
    return { bodies: inOrder.map(({ body }) => body), items: inOrder.flatMap(({ items }) => items) }
  }
  return {
    add: ({ body, concatenation, item, key: textKey }, now) => {
      const { part, parts: total } = concatenation
      if (total <= 1 || part < 1 || part > total) return { bodies: [body], items: [item] }
      if (size() >= options.maxParts) return 'full'
      const key = `${textKey}/${total}`
      const found = incomplete.get(key) ?? { parts: new Map(), since: now }
      incomplete.set(key, found)
      found.parts.set(part, { body, items: [...(found.parts.get(part)?.items ?? []), item] })
      return found.parts.size === total ? remove(key, found) : 'waiting'
    },
    expired: (now) => {
      const expired: Array<Reassembled<A>> = []
      // The map is in the order of the first parts.
      for (const [key, text] of incomplete) {
        if (now - text.since < options.waitMs) break
        expired.push(remove(key, text))
      }
      return expired
    },
    discard: (matches) => {
      for (const [key, { parts }] of incomplete) {
        for (const [index, part] of parts) {
          part.items = part.items.filter((item) => !matches(item))
          if (part.items.length === 0) parts.delete(index)
        }
        if (parts.size === 0) incomplete.delete(key)
      }
    },
    size,
  }
}
