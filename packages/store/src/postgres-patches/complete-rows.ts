/**
 * Patch: a result contains its rows from index 0 on.
 *
 * - postgres 3.4.9: it counts rows for each connection, not for each statement. After a statement
 *   that failed between its rows, the result of the next statement begins with as many empty
 *   places.
 * - Why the hub needs more: `result[0]` is then `undefined`, although the statement has returned a
 *   row. The fan-out once concluded from it that another process owned its partition.
 * - Fails without the patch: `pool.int.test.ts`, "a statement > has all of its rows after a
 *   statement that failed between its rows".
 * - Unnecessary when: the driver resets its row count after an error.
 */

/** Removes the empty places at the start of a result. */
export const completeRows = (result: unknown): unknown => {
  if (Array.isArray(result) && result.length > 0 && !(0 in result)) {
    let first = 1
    while (first < result.length && !(first in result)) first += 1
    result.splice(0, first)
  }
  return result
}
