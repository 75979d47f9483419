/** Pages without a session: the sign-in, and an API that does not answer. */
import { useEffect } from 'preact/hooks'
import { loadSession, type Session } from '../api/client.ts'
import { Failed } from '../components/basics.tsx'
import { keepAddress, location } from '../routing/location.ts'
import { returnAddress } from '../routing/routes.ts'
import { strings } from '../strings.ts'

/** The page asks again by itself, so that it opens when the API is back. */
const RETRY_EVERY_MS = 5_000

export const Unavailable = () => {
  useEffect(() => {
    const timer = setInterval(() => {
      void loadSession()
    }, RETRY_EVERY_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <main class="sign-in">
      <h1>{strings.product}</h1>
      <Failed
        failure={{ kind: 'unavailable' }}
        retry={() => {
          void loadSession()
        }}
      />
    </main>
  )
}

export const SignIn = ({ state }: { readonly state: Exclude<Session['state'], 'signed_in'> }) => {
  const { pathname, search } = location.value
  useEffect(keepAddress, [])
  const query = new URLSearchParams({ return_to: returnAddress(pathname, search) })
  return (
    <main class="sign-in">
      <h1>{state === 'expired' ? strings.signIn.expired : strings.signIn.title}</h1>
      <p>{state === 'expired' ? strings.signIn.expiredAbout : strings.signIn.about}</p>
      <p>
        <a class="button" href={`/login?${query.toString()}`}>
          {strings.signIn.action}
        </a>
      </p>
      <p class="muted">{strings.signIn.local}</p>
    </main>
  )
}
