/** Operations of the account. Source: docs/contract/account.md. */
import { Account } from '../schemas/account.ts'
import { get, resource } from './operation.ts'

export const AccountGroup = resource(
  'account',
  'Account',
  'What is in force for your key.',
  get('read', '/v1/account', {
    summary: 'Read the account',
    description: 'The account and mode of the key, with the limits that are in force for it.',
    answer: 'The account.',
    success: Account,
  }),
)
