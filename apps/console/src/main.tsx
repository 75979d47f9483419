/** The console: chooses the page of the address, if somebody is signed in. */
import { render } from 'preact'
import { useEffect } from 'preact/hooks'
import { loadSession, session } from './api/client.ts'
import { Empty, keepTime, Loading, PageTitle } from './components/basics.tsx'
import { Layout } from './components/layout.tsx'
import { followLinks, location, returnToAddress, route } from './routing/location.ts'
import type { Match } from './routing/routes.ts'
import { SCREENS } from './screens/index.tsx'
import { SignIn, Unavailable } from './screens/sign-in.tsx'
import { language } from './language.ts'
import { strings } from './strings.ts'
import { applyChoices } from './theme.ts'

const NotFound = () => (
  <>
    <PageTitle text={strings.notFound.title} />
    <Empty>{strings.notFound.text}</Empty>
  </>
)

const Page = ({ match }: { readonly match: Match | null }) => {
  if (match === null) return <NotFound />
  const Screen = SCREENS[match.screen]
  // Another address is another page, so that its heading gets the focus.
  return <Screen key={location.value.pathname} params={match.params} />
}

const Console = () => {
  const { state } = session.value
  useEffect(() => {
    if (state === 'signed_in') returnToAddress()
    if (state === 'signed_out') document.title = `${strings.signIn.title} – ${strings.product}`
  }, [state])
  switch (state) {
    case 'unknown':
      return (
        <main class="content">
          <Loading />
        </main>
      )
    case 'unavailable':
      return <Unavailable />
    case 'signed_out':
    case 'expired':
      return <SignIn state={state} />
    case 'signed_in':
      return (
        <Layout>
          <Page match={route.value} />
        </Layout>
      )
  }
}

document.documentElement.lang = language
applyChoices()
keepTime()
followLinks()
const root = document.getElementById('console')
if (root !== null) render(<Console />, root)
void loadSession()
