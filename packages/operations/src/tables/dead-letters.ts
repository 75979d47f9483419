/**
 * `command.dead_letters`: what hub staff did about dead letters, by the position of the source
 * record. A position is `topic/partition/offset`.
 */
import type { Position } from '@hub/kafka'
import type { Queries } from '@hub/store'

export const positionText = ({ offset, partition, topic }: Position): string =>
  `${topic}/${partition}/${offset}`

export interface Handling {
  readonly outcome: 'retrying' | 'retried' | 'dropped'
  readonly at: Date
}

/** The handled ones of these positions, by the text of the position. */
export const read = async (
  q: Queries,
  positions: ReadonlyArray<Position>,
): Promise<ReadonlyMap<string, Handling>> => {
  const rows = await q<(Handling & { topic: string; partition: number; offset: string })[]>`
    SELECT d.source_topic AS topic, d.source_partition AS partition, d.source_offset AS "offset", d.outcome, d.at
      FROM unnest(${positions.map(({ topic }) => topic)}::text[], ${positions.map(({ partition }) => partition)}::integer[],
                  ${positions.map(({ offset }) => offset)}::bigint[]) AS w (topic, partition, "offset")
      JOIN command.dead_letters d
        ON d.source_topic = w.topic AND d.source_partition = w.partition AND d.source_offset = w."offset"`
  return new Map(
    rows.map(({ at, offset, outcome, ...source }) => [
      positionText({ ...source, offset: Number(offset) }),
      { outcome, at },
    ]),
  )
}

/**
 * Reserves a position before its dead letter is handled, so that nobody handles it twice. Returns
 * false if it was handled before, unless `again` is true.
 */
export const reserve = async (
  q: Queries,
  { offset, partition, topic }: Position,
  outcome: 'retrying' | 'dropped',
  again: boolean,
): Promise<boolean> => {
  const rows = await q`
    INSERT INTO command.dead_letters AS d (source_topic, source_partition, source_offset, outcome)
    VALUES (${topic}, ${partition}, ${offset}, ${outcome})
    ON CONFLICT (source_topic, source_partition, source_offset)
      DO UPDATE SET outcome = excluded.outcome, at = excluded.at WHERE ${again}
    RETURNING 1`
  return rows.length > 0
}

export const markRetried = async (q: Queries, { offset, partition, topic }: Position): Promise<void> => {
  await q`
    UPDATE command.dead_letters SET outcome = 'retried', at = now()
     WHERE source_topic = ${topic} AND source_partition = ${partition} AND source_offset = ${offset}`
}
