/**
 * Waits for everything, then fails with what failed first: nothing is still under way when the caller cleans up.
 * `onFailure` is called at the first failure, to cut the rest short.
 */
export const inParallel = async (
  work: ReadonlyArray<Promise<unknown>>,
  onFailure: () => void = () => {},
): Promise<void> => {
  const failures: Array<unknown> = []
  await Promise.all(
    work.map((one) =>
      one.catch((error: unknown) => {
        failures.push(error)
        if (failures.length === 1) onFailure()
      }),
    ),
  )
  if (failures.length > 0) throw failures[0]
}
