/** `hubctl ranges`: number ranges for which codes are requested by fraud, and their blocks. */
import { confirm, defineGroup, fields, NOTHING, show, showList } from '@hub/command-line'
import { Ranges } from '@hub/operations'
import { Effect } from 'effect'
import { Argument } from 'effect/cli'
import {
  accountArgument,
  accountFlag,
  durationFlag,
  limitFlag,
  reasonFlag,
  takesEffect,
} from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const rangeArgument = Argument.String('range').pipe(
  Argument.withDescription('The three digits after +7, such as 912'),
  Argument.filter(
    (range) => /^9\d{2}$/u.test(range),
    () => 'three digits that begin with 9, such as 912',
  ),
)

const percent = (share: number | null): string => (share === null ? 'none' : `${Math.round(100 * share)} %`)

const suspicious = defineCommand(
  'suspicious',
  {
    short: 'Show accounts and ranges with far more codes than expected',
    about:
      'Shows for which number ranges an account requests far more codes in the last hours than in the same hours of ' +
      'earlier weeks, and than for its other ranges. Somebody may earn money with messages to these numbers. The range ' +
      'with the most requests above the expected ones is first.',
    changes: NOTHING,
    examples: [{ command: 'hubctl ranges suspicious' }],
  },
  { account: accountFlag, limit: limitFlag },
  Effect.fnUntraced(function* (filter) {
    const { data } = yield* run(Ranges.suspicious, filter)
    yield* showList(data, {
      account: (row) => row.account,
      name: (row) => row.name,
      range: (row) => row.range,
      since: (row) => row.since,
      requests: (row) => row.requests,
      expected: (row) => row.expected,
      delivered: (row) => percent(row.delivery_rate),
      usually: (row) => percent(row.usual_rate),
      'blocked until': (row) => row.blocked_until ?? '',
    })
  }),
)

const list = defineCommand(
  'list',
  {
    short: 'Show blocked ranges',
    about: 'Shows the blocks in force, the newest first. A block that is over is not shown.',
    changes: NOTHING,
    examples: [{ command: 'hubctl ranges list' }],
  },
  { account: accountFlag, limit: limitFlag },
  Effect.fnUntraced(function* (filter) {
    const { data } = yield* run(Ranges.list, filter)
    yield* showList(data, {
      account: (row) => row.account,
      name: (row) => row.name,
      range: (row) => row.range,
      until: (row) => row.until,
      by: (row) => row.blocked_by,
      reason: (row) => row.reason,
    })
  }),
)

const block = defineCommand(
  'block',
  {
    short: 'Block a range for an account for some time',
    about:
      'Live sends of the account to numbers of the range get 422 recipient_range_blocked until the end of the block, in ' +
      'both classes. In a batch, only these messages are refused. Messages that are accepted already are sent. The block ends by ' +
      'itself. If the range is blocked already, the new block replaces the old one, with its end and its reason.',
    changes: `Which numbers an account can send to. ${takesEffect('settings')} hubctl ranges unblock ends the block early.`,
    examples: [
      {
        command:
          'hubctl ranges block acc_01m7yt89qhe54swwc8wkxj6n8e 912 --for 24h --reason "Attack on the sign-up form, INC-17"',
      },
    ],
  },
  {
    account: accountArgument,
    range: rangeArgument,
    for: durationFlag('for', 'The duration of the block, from now', Ranges.MAX_BLOCK_SECONDS * 1000),
    reason: reasonFlag('Why, for other hub staff and the audit trail'),
  },
  Effect.fnUntraced(function* ({ account, for: ms, range, reason }) {
    yield* confirm(`Refuse all live messages of ${account} to range ${range} for ${ms / 60_000} minutes?`)
    const blocked = yield* run(Ranges.block, { account, range, seconds: ms / 1000, reason })
    yield* show(blocked, ({ name, replaced_until, until }) =>
      fields({
        account: `${account} ${name}`,
        range,
        'blocked until': until,
        ...(replaced_until === null ? {} : { 'instead of until': replaced_until }),
      }),
    )
  }),
)

const unblock = defineCommand(
  'unblock',
  {
    short: 'End the block of a range',
    about: 'Ends a block before its time. A range that is not blocked is refused with range_not_blocked.',
    changes: `Which numbers an account can send to. ${takesEffect('settings')}`,
    examples: [{ command: 'hubctl ranges unblock acc_01m7yt89qhe54swwc8wkxj6n8e 912' }],
  },
  { account: accountArgument, range: rangeArgument },
  Effect.fnUntraced(function* (input) {
    const ended = yield* run(Ranges.unblock, input)
    yield* show(ended, ({ account, ended_before, range }) =>
      fields({ account, range, 'was blocked until': ended_before }),
    )
  }),
)

export const ranges = defineGroup(
  'ranges',
  {
    short: 'Number ranges with suspicious requests, and their blocks',
    about:
      'Somebody who earns money with messages to some numbers requests codes for them. These commands show such ranges of ' +
      'accounts, and block them for a time. Nothing is blocked without a person.',
  },
  [suspicious, list, block, unblock],
)
