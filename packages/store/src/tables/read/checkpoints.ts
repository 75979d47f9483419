/**
 * `read.checkpoints`: the offset up to which the projector has applied each partition. Owner:
 * projector, which moves a checkpoint in the transaction that writes the read models. Other apps
 * compare the positions with offsets, to know whether the read models contain a record yet.
 */
import type { Queries } from '../../pool.ts'

/** The name of the projector's projection, in the column `projection`. */
export const PROJECTION = 'messages'

export interface Position {
  /** The topic without the prefix of the deployment. */
  readonly topic: string
  readonly partition: number
  /** The next offset that the projector applies. */
  readonly position: number
}

/** Read the positions before the read models, which are then at least as new. */
export const readPositions = async (q: Queries): Promise<ReadonlyArray<Position>> =>
  q<Position[]>`
    SELECT topic, partition, position::float8 AS position FROM read.checkpoints WHERE projection = ${PROJECTION}`
