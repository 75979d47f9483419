/** The audit trail. */
import { Audit } from '@hub/operations'
import type { EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { CURSOR_INVALID } from './refusals.ts'

export const audit: EndpointGroup = {
  name: 'audit',
  title: 'Audit trail',
  description: 'Who did what when, in which role, with which outcome. Lines never change.',
  endpoints: [
    ...list({
      operation: 'audit.list',
      method: 'GET',
      path: '/v1/audit',
      summary: 'List the audit trail',
      description:
        'The operations of hub staff, newest first. `command` is a command such as `keys issue`, or a group such as `keys`.',
      useCase: Audit.list,
      refusals: CURSOR_INVALID,
    }),
  ],
}
