/**
 * The longest time until the answer to a single request, as a test measures it, ms. The contract
 * promises 3 s, which the unit test of the request pipeline proves with a virtual clock. A busy machine
 * needs longer. A step without a deadline of its own would only end with the outage, or at the hard
 * deadline of a request, 20 s.
 * Source: AVL-4.
 */
export const ANSWERED_WITHIN_MS = 15_000
