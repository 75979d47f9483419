/**
 * The outbox rows that Kafka has acknowledged and that are not deleted yet. The next acceptance batch
 * deletes them, or the acceptor if none comes.
 */
export const makeAppendedRows = () => {
  const rows: Array<number> = []
  return {
    /** Kafka has acknowledged them, or they were not deleted. */
    add: (appended: ReadonlyArray<number>): void => void rows.push(...appended),
    /** Hands them over, for deletion. */
    take: (): ReadonlyArray<number> => rows.splice(0),
  }
}
export type AppendedRows = ReturnType<typeof makeAppendedRows>
