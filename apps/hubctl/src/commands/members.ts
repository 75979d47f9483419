/** `hubctl members`: engineers of a client, who see its account in the console. */
import { confirm, defineGroup, fields, NOTHING, show, table } from '@hub/command-line'
import { Members } from '@hub/operations'
import { Effect } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { accountArgument, accountFlag, limitFlag } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const ACCOUNT = 'acc_01m7yt89qhe54swwc8wkxj6n8e'
const PERSON = "'https://login.example.com|00u1x'"

const personArgument = Argument.String('person').pipe(
  Argument.withDescription(
    'Issuer and subject at the identity provider, as the console shows them to the person',
  ),
)

const list = defineCommand(
  'list',
  {
    short: 'List the members of accounts',
    about:
      'Lists the persons that hub staff have made members of accounts. The identity provider can name further ' +
      'accounts of a person (HUB_OIDC_ACCOUNTS_CLAIM): the hub does not know them before the person signs in.',
    changes: NOTHING,
    examples: [{ command: `hubctl members list --account ${ACCOUNT}` }],
  },
  { account: accountFlag, limit: limitFlag },
  Effect.fnUntraced(function* ({ account, limit }) {
    const { data } = yield* run(Members.list, { account, limit, cursor: null })
    yield* show({ object: 'list', data }, () =>
      table(data, {
        account: (row) => row.account,
        person: (row) => row.person,
        name: (row) => row.name,
        added: (row) => row.added_at,
      }),
    )
  }),
)

const add = defineCommand(
  'add',
  {
    short: 'Let an engineer of a client see its account',
    about:
      'Makes a person a member of an account. The person sees its messages, templates, webhooks, usage and keys in ' +
      'the console, without numbers and texts, and can send webhooks again. The person needs the role member ' +
      '(HUB_OIDC_ROLES).',
    changes: 'Who sees the account, from the next request of the person. hubctl members remove undoes it.',
    examples: [{ command: `hubctl members add ${ACCOUNT} ${PERSON} --name 'Anna, shop team'` }],
  },
  {
    account: accountArgument,
    person: personArgument,
    name: Flag.String('name').pipe(Flag.withDescription('The name of the person, for people')),
  },
  Effect.fnUntraced(function* ({ account, name, person }) {
    const added = yield* run(Members.add, { account, person, name })
    yield* show(added, ({ changed }) =>
      fields({ account, person, name, member: changed ? 'now' : 'already before; the name was set' }),
    )
  }),
)

const remove = defineCommand(
  'remove',
  {
    short: 'Take an account from an engineer of a client',
    about:
      'The person does not see the account any more, unless the identity provider names it (HUB_OIDC_ACCOUNTS_CLAIM).',
    changes: 'Who sees the account, from the next request of the person.',
    examples: [{ command: `hubctl members remove ${ACCOUNT} ${PERSON}` }],
  },
  { account: accountArgument, person: personArgument },
  Effect.fnUntraced(function* ({ account, person }) {
    yield* confirm(`Take ${account} from ${person}?`)
    const removed = yield* run(Members.remove, { account, person })
    yield* show(removed, () => fields({ account, person, member: 'no longer' }))
  }),
)

export const members = defineGroup(
  'members',
  {
    short: 'Engineers of clients, who see their accounts',
    about:
      'An engineer of a client with the role member sees only the accounts of this client. Hub staff see all accounts.',
  },
  [list, add, remove],
)
