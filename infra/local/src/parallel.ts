/**
 * Waits until all promises have settled, then throws the first error. So nothing runs any more when
 * the caller cleans up. `onFailure` is called at the first error, to interrupt the others.
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
