/** Waits for the event journal, which is the end of the way of a message. */
import { eventually } from '@hub/testkit'
import type postgres from 'postgres'

/** Events of a message: accepted, sent, delivered. */
export const EVENTS_PER_MESSAGE = 3

/**
 * Waits until the event journal has all events of this number of messages. Asks PostgreSQL each
 * `everyMs`, by default 20.
 */
export const awaitEvents = (
  sql: postgres.Sql,
  messages: number,
  withinMs: number,
  everyMs = 20,
): Promise<true> =>
  eventually(
    async () => {
      const [row] = await sql`SELECT coalesce(sum(sequence), 0) AS events FROM read.event_heads`
      const events = Number(row?.['events'])
      const wanted = messages * EVENTS_PER_MESSAGE
      if (events < wanted) throw new Error(`The event journal has ${events} of ${wanted} events.`)
      return true as const
    },
    { withinMs, everyMs },
  )
