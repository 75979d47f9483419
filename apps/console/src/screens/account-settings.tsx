/** The limits, prices and weights of an account, and their change. */
import { isAmount, fieldText, settingChanges, settingNames } from '../accounts/setting-changes.ts'
import { may, request } from '../api/client.ts'
import type { Account, AccountSetting } from '../api/types.ts'
import { ActionButton, textOf } from '../components/dialog.tsx'
import { Table } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { strings } from '../strings.ts'

const settingText = (value: number | string | null | undefined): string =>
  value === null || value === undefined ? strings.none : String(value)

const ChangeSettings = ({
  account,
  reload,
  settings,
}: {
  readonly account: Account
  readonly settings: Account['modes'][number]
  readonly reload: () => void
}) => (
  <ActionButton
    label={strings.accounts.changeMode(settings.mode)}
    about={strings.accounts.changeAbout}
    action={strings.accounts.change}
    onSubmit={async (fields) => {
      const changes = settingChanges(settings, (name) => textOf(fields, name))
      const body = { mode: settings.mode, changes }
      await request(`/v1/accounts/${account.id}/settings`, { method: 'PATCH', body })
      reload()
    }}
  >
    {(settingNames(settings) as ReadonlyArray<AccountSetting>).map((name) => (
      <label key={name}>
        {wordsOf(name)}
        <input
          name={name}
          autocomplete="off"
          inputMode={isAmount(name) ? 'decimal' : 'numeric'}
          pattern={isAmount(name) ? '\\d{1,9}([.]\\d{2})?' : '\\d{1,7}'}
          defaultValue={fieldText(settings, name)}
          placeholder={settingText(settings.in_force[name])}
        />
      </label>
    ))}
  </ActionButton>
)

export const Settings = ({ account, reload }: { readonly account: Account; readonly reload: () => void }) => (
  <section aria-labelledby="limits">
    <h2 id="limits">{strings.accounts.limits}</h2>
    <p class="muted">{strings.accounts.limitsNote}</p>
    {may('accounts.change') ? (
      <div class="actions">
        {account.modes.map((settings) => (
          <ChangeSettings key={settings.mode} account={account} settings={settings} reload={reload} />
        ))}
      </div>
    ) : null}
    <Table
      label={strings.accounts.limits}
      rows={Object.keys(account.modes[0]?.in_force ?? {}) as ReadonlyArray<AccountSetting>}
      rowKey={(name) => name}
      columns={[
        { title: strings.accounts.setting, cell: (name) => wordsOf(name) },
        ...account.modes.map(({ in_force, mode, overridden }) => ({
          title: wordsOf(mode),
          numeric: true,
          cell: (name: AccountSetting) => (
            <>
              {overridden.includes(name) ? (
                <strong title={strings.accounts.overridden}>{settingText(in_force[name])} *</strong>
              ) : (
                settingText(in_force[name])
              )}
            </>
          ),
        })),
      ]}
    />
  </section>
)
