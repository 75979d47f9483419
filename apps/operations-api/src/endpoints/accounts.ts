/** Accounts: settings, spend, waiting messages and certification. */
import { Accounts, Certification } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { ACCOUNT_NOT_FOUND, CURSOR_INVALID } from './refusals.ts'

const NOT_CERTIFIED = { not_certified: { message: 'The account is not certified.', param: 'account' } }

export const accounts: EndpointGroup = {
  name: 'accounts',
  title: 'Accounts',
  description: 'The clients of the hub: settings, spend, waiting messages and certification.',
  endpoints: [
    ...list({
      operation: 'accounts.list',
      method: 'GET',
      path: '/v1/accounts',
      summary: 'List accounts',
      description: 'Accounts, newest first, with the numbers of their working keys.',
      useCase: Accounts.list,
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'accounts.read',
      method: 'GET',
      path: '/v1/accounts/:account',
      summary: 'Read an account',
      description: 'The settings in each mode, and the spend of the current month.',
      useCase: Accounts.get,
      refusals: ACCOUNT_NOT_FOUND,
    }),
    endpoint({
      operation: 'accounts.create',
      method: 'POST',
      path: '/v1/accounts',
      summary: 'Create an account',
      description: 'An account without keys.',
      useCase: Accounts.create,
    }),
    endpoint({
      operation: 'accounts.change_settings',
      method: 'PATCH',
      path: '/v1/accounts/:account/settings',
      summary: 'Change the settings of an account',
      description: 'In one mode. `null` restores the default; settings that are left out stay.',
      useCase: Accounts.set,
      refusals: ACCOUNT_NOT_FOUND,
    }),
    endpoint({
      operation: 'accounts.reset_spend',
      method: 'POST',
      path: '/v1/accounts/:account/reset_spend',
      summary: 'Reset the spend of an account',
      description: 'Sets the spend of the current month to zero, so that the spend limit counts from now.',
      useCase: Accounts.resetSpend,
      refusals: ACCOUNT_NOT_FOUND,
    }),
    ...list({
      operation: 'accounts.backlog',
      method: 'GET',
      path: '/v1/backlog',
      summary: 'List waiting messages by account',
      description:
        'Messages that no SMS operator has yet, by account, mode and class, the longest wait first.',
      useCase: Accounts.backlog,
    }),
    endpoint({
      operation: 'accounts.read_certification',
      method: 'GET',
      path: '/v1/accounts/:account/certification',
      summary: 'Read the certification of an account',
      description: 'The checklist, and who has certified the account.',
      useCase: Certification.check,
      refusals: ACCOUNT_NOT_FOUND,
    }),
    endpoint({
      operation: 'accounts.certify',
      method: 'POST',
      path: '/v1/accounts/:account/certification',
      summary: 'Certify an account',
      description:
        'The account may then have live keys. `confirmed`: the points that the hub cannot observe.',
      useCase: Certification.grant,
      refusals: {
        ...ACCOUNT_NOT_FOUND,
        checklist_incomplete: { message: 'Points of the checklist are open.', param: 'confirmed' },
      },
    }),
    endpoint({
      operation: 'accounts.withdraw_certification',
      method: 'DELETE',
      path: '/v1/accounts/:account/certification',
      summary: 'Withdraw a certification',
      description: 'Existing live keys continue to work.',
      useCase: Certification.withdraw,
      refusals: { ...ACCOUNT_NOT_FOUND, ...NOT_CERTIFIED },
    }),
  ],
}
