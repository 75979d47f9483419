/** The pages by the name of their route. */
import type { ComponentType } from 'preact'
import { may } from '../api/client.ts'
import type { Match, Screen } from '../routing/routes.ts'
import { AccountPage, Accounts } from './accounts.tsx'
import { Audit } from './audit.tsx'
import { Insights } from './insights.tsx'
import { MemberStart } from './member-start.tsx'
import { MessagePage } from './message.tsx'
import { Messages } from './messages.tsx'
import { Moderation, ModerationPage } from './moderation.tsx'
import { Erasures, OptOuts } from './people.tsx'
import { Search } from './search.tsx'
import { Start } from './start.tsx'
import { DeadLetters, Stuck } from './stuck.tsx'
import { Usage } from './usage.tsx'
import { SavedViews, ViewPage } from './views.tsx'
import { AttemptPage, SubscriptionPage, Webhooks } from './webhooks.tsx'

type Page = ComponentType<{ readonly params: Match['params'] }>

export const SCREENS: Readonly<Record<Screen, Page>> = {
  start: () => (may('hub.read') ? <Start /> : <MemberStart />),
  insights: Insights,
  search: Search,
  messages: Messages,
  message: ({ params }) => <MessagePage id={params['id'] ?? ''} />,
  moderation: ({ params }) => <Moderation kind={params['kind'] ?? ''} />,
  moderationItem: ({ params }) => <ModerationPage kind={params['kind'] ?? ''} id={params['id'] ?? ''} />,
  webhooks: Webhooks,
  subscription: ({ params }) => <SubscriptionPage id={params['id'] ?? ''} />,
  attempt: ({ params }) => <AttemptPage id={params['id'] ?? ''} />,
  stuck: Stuck,
  deadLetters: DeadLetters,
  accounts: Accounts,
  account: ({ params }) => <AccountPage id={params['id'] ?? ''} />,
  usage: Usage,
  optOuts: OptOuts,
  erasures: Erasures,
  audit: Audit,
  views: SavedViews,
  view: ({ params }) => <ViewPage id={params['id'] ?? ''} />,
}
