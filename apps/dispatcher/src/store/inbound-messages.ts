/** The inbound messages that hub staff read: `command.inbound_messages`. */
import { CommandErasures, type Queries } from '@hub/store'
import type { InboundRecord } from './store.port.ts'

export const insertInbound = async (q: Queries, messages: ReadonlyArray<InboundRecord>): Promise<void> => {
  const isErased = CommandErasures.isErased(q, 'm.recipient', 'm.received_at')
  await q`
    INSERT INTO command.inbound_messages
      (id, recipient, operator, service_address, received_at, sealing_key, sealed)
    SELECT id, recipient, operator, service_address, received_at,
           CASE WHEN ${isErased} THEN NULL ELSE sealing_key END,
           CASE WHEN ${isErased} THEN NULL ELSE sealed END
      FROM (SELECT id, decode(recipient, 'hex') AS recipient, operator, service_address,
                   to_timestamp(received_at / 1000) AS received_at, sealing_key, decode(sealed, 'hex') AS sealed
              FROM unnest(${messages.map(({ id }) => id)}::uuid[],
                          ${messages.map(({ recipient }) => recipient)}::text[],
                          ${messages.map(({ operator }) => operator)}::text[],
                          ${messages.map(({ serviceAddress }) => serviceAddress)}::text[],
                          ${messages.map(({ receivedAt }) => receivedAt)}::double precision[],
                          ${messages.map(({ content }) => content?.keyId ?? null)}::text[],
                          ${messages.map(({ content }) => (content === null ? null : Buffer.from(content.ciphertext).toString('hex')))}::text[])
                AS u (id, recipient, operator, service_address, received_at, sealing_key, sealed)) AS m
    ON CONFLICT (id) DO NOTHING`
}
