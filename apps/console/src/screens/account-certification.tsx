/** The certification of an account: the checklist before it gets live keys. */
import { may, request } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Account, Certification as Certified } from '../api/types.ts'
import { ResourceState, Status, Time } from '../components/basics.tsx'
import { ActionButton } from '../components/dialog.tsx'
import { type Column, Table } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { strings } from '../strings.ts'

type Point = Certified['points'][number]

const POINTS: ReadonlyArray<Column<Point>> = [
  { title: strings.accounts.point, cell: ({ name }) => wordsOf(name) },
  {
    title: strings.columns.status,
    cell: ({ fulfilled }) => <Status value={fulfilled ? 'done' : 'pending'} />,
  },
  { title: strings.accounts.wanted, cell: ({ wanted }) => wanted },
  { title: strings.accounts.pointBy, cell: ({ by }) => strings.accounts.pointsBy[by] },
]

const Grant = ({
  path,
  points,
  reload,
}: {
  readonly path: string
  readonly points: ReadonlyArray<Point>
  readonly reload: () => void
}) => (
  <ActionButton
    label={strings.accounts.certify}
    about={strings.accounts.certifyAbout}
    onSubmit={async (fields) => {
      await request(path, { method: 'POST', body: { confirmed: fields.getAll('confirmed') } })
      reload()
    }}
  >
    {points
      .filter(({ by }) => by === 'confirmed')
      .map(({ name, wanted }) => (
        <label key={name}>
          <input type="checkbox" name="confirmed" value={name} /> {wanted}
        </label>
      ))}
  </ActionButton>
)

export const Certification = ({
  account,
  reloadAccount,
}: {
  readonly account: Account
  readonly reloadAccount: () => void
}) => {
  const path = `/v1/accounts/${account.id}/certification`
  const { data, failure, reload } = useResource<Certified>(path)
  const reloadBoth = (): void => {
    reload()
    reloadAccount()
  }
  return (
    <section aria-labelledby="certification">
      <h2 id="certification">{strings.accounts.certification}</h2>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <p>
            {data.certified ? strings.accounts.certified : strings.accounts.notCertified}
            {data.granted_by === null ? null : (
              <>
                {' '}
                ({data.granted_by}, <Time at={data.granted_at} />)
              </>
            )}
          </p>
          {may('accounts.change') ? (
            <div class="actions">
              {data.certified ? (
                <ActionButton
                  label={strings.accounts.withdraw}
                  about={strings.accounts.withdrawAbout}
                  confirmName={account.name}
                  onSubmit={async () => {
                    await request(path, { method: 'DELETE' })
                    reloadBoth()
                  }}
                />
              ) : (
                <Grant path={path} points={data.points} reload={reloadBoth} />
              )}
            </div>
          ) : null}
          <Table
            label={strings.accounts.certification}
            rows={data.points}
            columns={POINTS}
            rowKey={({ name }) => name}
          />
        </>
      )}
    </section>
  )
}
