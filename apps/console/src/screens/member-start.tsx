/** The start page of a member: the accounts that they see, and who they are for hub staff. */
import { session } from '../api/client.ts'
import { usePages } from '../api/resource.ts'
import type { AccountRow } from '../api/types.ts'
import { Code, PageTitle } from '../components/basics.tsx'
import { PagedTable } from '../components/table.tsx'
import { strings } from '../strings.ts'
import { ACCOUNT_COLUMNS } from './accounts.tsx'

export const MemberStart = () => {
  const pages = usePages<AccountRow>('/v1/accounts?limit=100')
  const me = session.value.state === 'signed_in' ? session.value.me : null
  return (
    <>
      <PageTitle text={strings.member.title} />
      <PagedTable
        label={strings.member.title}
        pages={pages}
        columns={ACCOUNT_COLUMNS}
        rowKey={({ id }) => id}
        empty={strings.member.none}
      />
      <h2>{strings.member.identity}</h2>
      <p class="muted">{strings.member.identityAbout}</p>
      <p>
        <Code text={me?.id ?? null} whole />
      </p>
    </>
  )
}
