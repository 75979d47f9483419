/**
 * `webhooks.batch_events`: which events are in which batch. It prevents that an event that is read
 * twice gets into two batches of a subscription. Owner: webhook-fanout. Ids are UUIDs.
 */
import { type Queries, sqlArray } from '@hub/store'

interface BatchEvent {
  readonly subscriptionId: string
  readonly event: string
}

/** Of these events, those in a batch of the redelivery or, for `null`, in an ordinary one. */
export const selectBatchEvents = (q: Queries, events: ReadonlyArray<BatchEvent>, redelivery: string | null) =>
  q<BatchEvent[]>`
    SELECT endpoint_id AS "subscriptionId", event_id AS event FROM webhooks.batch_events
    WHERE ${redelivery === null ? q`redelivery IS NULL` : q`redelivery = ${redelivery}`}
      AND (endpoint_id, event_id) IN (SELECT * FROM unnest(
        ${sqlArray(events.map(({ subscriptionId }) => subscriptionId))}::uuid[],
        ${sqlArray(events.map(({ event }) => event))}::uuid[]))`

/** The events of a batch of a subscription, in the order of the batch. */
export const selectEventsOfBatch = async (
  q: Queries,
  subscriptionId: string,
  batch: string,
): Promise<ReadonlyArray<string>> => {
  const rows = await q<{ event: string }[]>`
    SELECT event_id AS event FROM webhooks.batch_events
     WHERE batch_id = ${batch} AND endpoint_id = ${subscriptionId} ORDER BY position`
  return rows.map(({ event }) => event)
}

export const insertBatchEvents = (
  q: Queries,
  rows: ReadonlyArray<BatchEvent & { readonly batch: string; readonly position: number }>,
  redelivery: string | null = null,
) => q`
  INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position, redelivery)
  SELECT *, ${redelivery}::uuid FROM unnest(
    ${sqlArray(rows.map(({ subscriptionId }) => subscriptionId))}::uuid[],
    ${sqlArray(rows.map(({ event }) => event))}::uuid[],
    ${sqlArray(rows.map(({ batch }) => batch))}::uuid[],
    ${sqlArray(rows.map(({ position }) => position))}::smallint[])`
