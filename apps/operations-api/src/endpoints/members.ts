/** Engineers of clients, who see the accounts of their client. */
import { Members } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { ACCOUNT_NOT_FOUND } from './refusals.ts'

export const members: EndpointGroup = {
  name: 'members',
  title: 'Members',
  description:
    'Engineers of a client, who see its account with the role `member`. An identity provider can also name accounts: those are not listed here.',
  endpoints: [
    ...list({
      operation: 'members.list',
      method: 'GET',
      path: '/v1/members',
      summary: 'List members',
      description: 'Whom hub staff have made a member of an account.',
      useCase: Members.list,
    }),
    endpoint({
      operation: 'members.add',
      method: 'POST',
      path: '/v1/members',
      summary: 'Add a member',
      description:
        'The person needs the role `member` at the identity provider, too. It holds from their next request.',
      useCase: Members.add,
      refusals: ACCOUNT_NOT_FOUND,
    }),
    endpoint({
      operation: 'members.remove',
      method: 'POST',
      path: '/v1/members/remove',
      summary: 'Remove a member',
      description: 'It holds from the next request of the person.',
      useCase: Members.remove,
      refusals: {
        ...ACCOUNT_NOT_FOUND,
        member_not_found: { message: 'The account has no such member.', param: 'person' },
      },
    }),
  ],
}
