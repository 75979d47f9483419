/** The start page of a member: the accounts that they see, and who they are for hub staff. */
import { session } from '../api/client.ts'
import { Code } from '../components/basics.tsx'
import { strings } from '../strings.ts'
import { AccountTable } from './accounts.tsx'

export const MemberStart = () => {
  const me = session.value.state === 'signed_in' ? session.value.me : null
  return (
    <>
      <AccountTable title={strings.member.title} empty={strings.member.none} />
      <h2>{strings.member.identity}</h2>
      <p class="muted">{strings.member.identityAbout}</p>
      <p>
        <Code text={me?.id ?? null} whole />
      </p>
    </>
  )
}
