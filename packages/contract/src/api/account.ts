/** Operations of the account. Source: specification, Endpoints. */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from 'effect/http-api'
import { Account } from '../schemas/account.ts'
import { ANYWHERE, ApiKey, failures, operation } from './operation.ts'

const ACCOUNT_CODES = [...ANYWHERE] as const

const readAccount = HttpApiEndpoint.get('read', '/v1/account', {
  success: Account,
  error: failures(ACCOUNT_CODES),
}).annotateMerge(
  operation({
    summary: 'Read the account',
    description: 'The account and mode of the key, with the limits that are in force for it.',
    answer: 'The account.',
    codes: ACCOUNT_CODES,
  }),
)

export const AccountGroup = HttpApiGroup.make('account')
  .add(readAccount)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Account', description: 'What is in force for your key.' }))
