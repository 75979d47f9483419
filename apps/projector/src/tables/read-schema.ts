/**
 * The schema that a statement of a read model uses: `read`, or `rebuild` with the tables that a
 * rebuild fills (docs/decisions/0020). The same statements serve both.
 *
 * Statements write in bulk: one statement for each table, with one array per column that `unnest`
 * turns into rows. Timestamps are ISO text and bytes are hexadecimal text, because the driver
 * cannot infer array types. The driver quotes names that clients or operators chose; all other
 * arrays use `sqlArray`.
 */
import { type Queries, uuidOf } from '@hub/store'

export type ReadSchema = 'read' | 'rebuild'

/** The qualified name of a table, as a part of a statement. */
export const tableIn = (q: Queries, schema: ReadSchema, table: string) => q(`${schema}.${table}`)

export const messageUuid = (id: string): string => uuidOf('msg', id)
export const accountUuid = (id: string): string => uuidOf('acc', id)
export const batchUuid = (id: string): string => uuidOf('bat', id)

/** A boolean as an element of a text array. */
export const booleanText = (value: boolean): string => (value ? 't' : 'f')
