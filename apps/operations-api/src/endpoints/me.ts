/** The person or the program that calls, and what it may do. */
import { accountsOf, addedField, allowingRole, PERMISSION_NAMES, ROLES } from '@hub/operations'
import { toTimestamp } from '@hub/domain'
import { Effect, Schema } from 'effect'
import { IDLE_MINUTES } from '../access/sessions-table.ts'
import { csrfToken } from '../access/sessions.ts'
import { type EndpointGroup, ownEndpoint } from './endpoint.ts'

const Me = Schema.Struct({
  object: Schema.Literal('me'),
  name: Schema.String.annotate({ description: 'As in the audit trail.' }),
  id: addedField(
    Schema.String.annotate({
      description: 'Issuer and subject at the identity provider. Hub staff make a person a member by it.',
    }),
    '',
  ),
  roles: Schema.Array(Schema.Literals(ROLES)),
  accounts: addedField(
    Schema.NullOr(Schema.Array(Schema.String)).annotate({
      description: 'The accounts of a member; `null`: hub staff see all.',
    }),
    null,
  ),
  permissions: Schema.Array(Schema.Literals(PERMISSION_NAMES)).annotate({
    description: 'What the roles permit.',
  }),
  csrf_token: Schema.NullOr(Schema.String).annotate({
    description:
      'The value of the header `X-CSRF-Token` of requests that change something; `null` for a program with a bearer token.',
  }),
  session: Schema.NullOr(
    Schema.Struct({
      ends_at: Schema.String.annotate({ description: 'The session is over at this time at the latest.' }),
      idle_timeout_minutes: Schema.Int.annotate({
        description: 'The session is over after this time without a request.',
      }),
    }),
  ),
}).annotate({ identifier: 'Me', title: 'Me', description: 'The person or the program that calls.' })

export const me: EndpointGroup = {
  name: 'me',
  title: 'Me',
  description: 'The person or the program that calls.',
  endpoints: [
    ownEndpoint({
      operation: 'me.read',
      method: 'GET',
      path: '/v1/me',
      summary: 'Read who you are',
      description: 'The name and the roles of the caller, and what they permit.',
      permission: null,
      output: Me as Schema.Codec<unknown, unknown>,
      answer: ({ actor, session }) =>
        Effect.succeed({
          object: 'me',
          name: actor.name,
          id: actor.id,
          accounts: accountsOf(actor),
          roles: actor.roles,
          permissions: PERMISSION_NAMES.filter((permission) => allowingRole(actor, permission) !== null),
          csrf_token: session === null ? null : csrfToken(session.token),
          session:
            session === null
              ? null
              : { ends_at: toTimestamp(session.endsAt), idle_timeout_minutes: IDLE_MINUTES },
        } satisfies typeof Me.Type),
    }),
  ],
}
