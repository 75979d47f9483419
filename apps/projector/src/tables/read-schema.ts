/**
 * The schema that a statement of a read model uses: `read`, or `rebuild` with the tables that a
 * rebuild fills (docs/decisions/read-models.md#rebuild). The same statements serve both.
 */
import { type Queries, uuidOf } from '@hub/store'

export type ReadSchema = 'read' | 'rebuild'

/** The qualified name of a table, as a part of a statement. */
export const tableIn = (q: Queries, schema: ReadSchema, table: string) => q(`${schema}.${table}`)

export const messageUuid = (id: string): string => uuidOf('msg', id)
export const accountUuid = (id: string): string => uuidOf('acc', id)
export const batchUuid = (id: string): string => uuidOf('bat', id)
