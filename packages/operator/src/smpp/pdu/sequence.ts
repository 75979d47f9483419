/** Sequence numbers of requests. */

/** The highest sequence number. After it they start again at 1. Source: SMPP 3.4, 3.2. */
export const MAX_SEQUENCE = 0x7fff_ffff

/** Returns the next sequence number that no outstanding request uses. */
export const nextSequence = (last: number, isTaken: (sequence: number) => boolean): number => {
  let next = last
  do next = next >= MAX_SEQUENCE ? 1 : next + 1
  while (isTaken(next))
  return next
}
