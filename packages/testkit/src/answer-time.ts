/**
 * The longest time until the answer to a single request, as a test measures it, ms. The contract
 * promises 3 s, which the unit test of the request pipeline proves with a virtual clock. The rest is
 * the time in which a busy machine runs neither the test nor the hub.
 * Source: AVL-4.
 */
export const ANSWERED_WITHIN_MS = 6000
