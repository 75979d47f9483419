/** All endpoints, in the order of the API description. */
import { accounts } from './accounts.ts'
import { audit } from './audit.ts'
import type { Endpoint, EndpointGroup } from './endpoint.ts'
import { deadLetters, hub } from './hub.ts'
import { insights } from './insights.ts'
import { keys } from './keys.ts'
import { me } from './me.ts'
import { members } from './members.ts'
import { messages } from './messages.ts'
import { moderation } from './moderation.ts'
import { overview } from './overview.ts'
import { people } from './people.ts'
import { ranges } from './ranges.ts'
import { stuck } from './stuck.ts'
import { usage } from './usage.ts'
import { views } from './views.ts'
import { webhooks } from './webhooks.ts'
import { performGroup } from './perform.ts'

const groups: ReadonlyArray<EndpointGroup> = [
  me,
  overview,
  insights,
  messages,
  webhooks,
  moderation,
  accounts,
  ranges,
  keys,
  members,
  hub,
  deadLetters,
  stuck,
  usage,
  people,
  audit,
  views,
]

export const endpointGroups: ReadonlyArray<EndpointGroup> = [
  ...groups,
  performGroup(groups.flatMap((group) => group.endpoints)),
]

export const endpoints: ReadonlyArray<Endpoint> = endpointGroups.flatMap((group) => group.endpoints)
