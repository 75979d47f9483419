/** The flags that select messages. */
import type { operations } from '@sms-delivery-hub/client'
import { Option } from 'effect'
import { type Command, Flag } from 'effect/cli'
import { choiceFlag } from './flags.ts'

const STATUSES = ['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired'] as const

export const filterFlags = {
  status: choiceFlag('status', STATUSES, 'Only this status'),
  class: choiceFlag('class', ['otp', 'service'], 'Only this class'),
  template: Flag.String('template').pipe(Flag.withDescription('Only this template'), Flag.optional),
  createdAfter: Flag.String('created-after').pipe(
    Flag.withDescription('Only messages accepted after this moment, such as 2026-11-21T09:30:00.000Z'),
    Flag.optional,
  ),
  createdBefore: Flag.String('created-before').pipe(
    Flag.withDescription('Only messages accepted before this moment'),
    Flag.optional,
  ),
  clientRef: Flag.String('client-ref').pipe(
    Flag.withDescription('The message with this id of yours'),
    Flag.optional,
  ),
  batch: Flag.String('batch').pipe(
    Flag.withDescription('Only this batch'),
    Flag.withMetavar('bat_…'),
    Flag.optional,
  ),
}

export type MessageFilters = Command.Command.Config.Infer<typeof filterFlags>

type Query = NonNullable<operations['messages.list']['parameters']['query']>
/** Every filter of the operation. */
type FilterQuery = {
  readonly [Name in keyof Omit<Query, 'limit' | 'starting_after'>]-?: Query[Name] | undefined
}

export const queryOf = (flags: MessageFilters): FilterQuery => ({
  batch: Option.getOrUndefined(flags.batch),
  client_ref: Option.getOrUndefined(flags.clientRef),
  status: Option.getOrUndefined(flags.status),
  class: Option.getOrUndefined(flags.class),
  template: Option.getOrUndefined(flags.template),
  created_after: Option.getOrUndefined(flags.createdAfter),
  created_before: Option.getOrUndefined(flags.createdBefore),
})
