/** What accounts use: charges, and the performance of templates. */
import { Usage } from '@hub/operations'
import type { EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { ACCOUNT_NOT_FOUND } from './refusals.ts'

export const usage: EndpointGroup = {
  name: 'usage',
  title: 'Usage',
  description: 'What accounts use and pay.',
  endpoints: [
    ...list({
      operation: 'usage.charges',
      method: 'GET',
      path: '/v1/usage/charges',
      summary: 'Read the charges of a month',
      description:
        'The charges of live messages that were accepted in a month, by account, class and template. It can take some seconds.',
      useCase: Usage.charges,
      leading: ['month'],
      exportsJson: true,
    }),
    ...list({
      operation: 'usage.month',
      method: 'GET',
      path: '/v1/usage/month',
      summary: 'Read the messages of a month',
      description:
        'The messages that were accepted in a month, live and test, by account, class and template, with their current status.',
      useCase: Usage.ofMonth,
    }),
    ...list({
      operation: 'usage.days',
      method: 'GET',
      path: '/v1/usage/days',
      summary: 'Read the spend of an account by day',
      description:
        'The charges of live messages by the day (UTC) of their acceptance. The return of a charge is on the day of the charge, so the days add up to the charges of the month.',
      useCase: Usage.days,
      refusals: ACCOUNT_NOT_FOUND,
    }),
    ...list({
      operation: 'usage.templates',
      method: 'GET',
      path: '/v1/usage/templates',
      summary: 'Read the performance of templates',
      description:
        'How the messages of each template of an account ended in a period, and how long the newest delivered ones took.',
      useCase: Usage.templates,
      refusals: {
        period_invalid: { message: 'The period is too long, or ends before it begins.', param: 'to' },
      },
    }),
  ],
}
