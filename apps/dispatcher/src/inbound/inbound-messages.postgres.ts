/** `InboundMessages` in PostgreSQL: `command.inbound_messages`. */
import { CommandErasures, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import { InboundMessages } from './inbound-messages.port.ts'

export const inboundMessagesPostgres: Layer.Layer<InboundMessages, never, Sql> = Layer.effect(
  InboundMessages,
  Effect.map(Sql, (sql) => ({
    store: (messages) =>
      messages.length === 0
        ? Effect.void
        : Effect.asVoid(
            sql.run((q) => {
              const isErased = CommandErasures.isErased(q, 'm.recipient', 'm.received_at')
              return q`
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
                                      ${messages.map(({ content }) => (content === null ? null : Buffer.from(content.sealed).toString('hex')))}::text[])
                            AS u (id, recipient, operator, service_address, received_at, sealing_key, sealed)) AS m
                ON CONFLICT (id) DO NOTHING`
            }),
          ),
  })),
)
