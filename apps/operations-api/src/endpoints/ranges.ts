/** Number ranges of accounts: suspicious requests, and blocks. */
import { Ranges } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { ACCOUNT_NOT_FOUND } from './refusals.ts'

export const ranges: EndpointGroup = {
  name: 'ranges',
  title: 'Number ranges',
  description:
    'Number ranges for which an account requests too many codes, and those to which it cannot send.',
  endpoints: [
    ...list({
      operation: 'ranges.list_suspicious',
      method: 'GET',
      path: '/v1/ranges/suspicious',
      summary: 'List suspicious requests',
      description:
        'Accounts and number ranges for which far more codes are requested in the last hours than is expected, by the same ' +
        'hours of earlier weeks and the other ranges of the account. The one with the most requests above that is first.',
      useCase: Ranges.suspicious,
    }),
    ...list({
      operation: 'ranges.list_blocks',
      method: 'GET',
      path: '/v1/ranges/blocks',
      summary: 'List blocked ranges',
      description: 'The blocks in force, the newest first.',
      useCase: Ranges.list,
    }),
    endpoint({
      operation: 'ranges.block',
      method: 'POST',
      path: '/v1/accounts/:account/ranges/:range/block',
      summary: 'Block a range for an account',
      description:
        'For some seconds from now: live sends of the account to the range get 422 `recipient_range_blocked`. A block in force ' +
        'is replaced, with its end and its reason. Accepted messages are sent.',
      useCase: Ranges.block,
      refusals: ACCOUNT_NOT_FOUND,
    }),
    endpoint({
      operation: 'ranges.unblock',
      method: 'POST',
      path: '/v1/accounts/:account/ranges/:range/unblock',
      summary: 'End the block of a range',
      description: 'Before its time.',
      useCase: Ranges.unblock,
      refusals: {
        ...ACCOUNT_NOT_FOUND,
        range_not_blocked: { message: 'The range is not blocked for this account.' },
      },
    }),
  ],
}
