/** The filters of a list. They are in its address, so that people can send it to a colleague. */
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { accountNames, accountOf, nameOfAccount } from '../api/account-names.ts'
import { ownAccounts } from '../api/client.ts'
import { fieldOfUtc, utcOfField } from '../format/time.ts'
import { wordsOf } from '../format/number.ts'
import { location, navigate } from '../routing/location.ts'
import { type Filters, filtersOf, withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'
import type { ViewList } from '../views/address.ts'
import { SaveView } from '../views/save-view.tsx'
import { CopyButton } from './basics.tsx'

export interface FilterField {
  readonly name: string
  readonly label: string
  /** `account`: the name or the id of an account. The address has its id. */
  readonly kind: 'text' | 'choice' | 'time' | 'month' | 'account'
  readonly choices?: ReadonlyArray<string>
  readonly placeholder?: string
  /** The value that holds while the address has none. */
  readonly fallback?: string
}

export const ACCOUNT_FIELD: FilterField = {
  name: 'account',
  label: strings.columns.account,
  kind: 'account',
  placeholder: strings.filters.account,
}

/** In UTC, as the charges. */
export const thisMonth = (): string => new Date().toISOString().slice(0, 'YYYY-MM'.length)

export const MONTH_FIELD: FilterField = {
  name: 'month',
  label: strings.usage.month,
  kind: 'month',
  fallback: thisMonth(),
}

/**
 * The filters of the current address that a list knows. A list shows a member one account: their first one, until they
 * choose another.
 */
export const currentFilters = (fields: ReadonlyArray<FilterField>): Filters => {
  const filters = filtersOf(
    location.value.search,
    fields.map(({ name }) => name),
  )
  const [first] = ownAccounts() ?? []
  return first !== undefined && fields.some(({ kind }) => kind === 'account')
    ? { account: first, ...filters }
    : filters
}

const valueOf = (field: FilterField, data: FormData): string => {
  const value = data.get(field.name)
  if (typeof value !== 'string') return ''
  if (field.kind === 'time') return utcOfField(value) ?? ''
  return field.kind === 'account' ? accountOf(value.trim()) : value.trim()
}

interface InputProps {
  readonly field: FilterField
  readonly id: string
  readonly value: string
}

/** The name of an account, or its id while the name is not known or not the only one. */
const AccountInput = ({ field, id, value }: InputProps) => {
  const input = useRef<HTMLInputElement>(null)
  const listId = useId()
  const name = nameOfAccount(value)
  const shown = name !== null && accountOf(name) === value ? name : value
  useLayoutEffect(() => {
    // The names may come when somebody types already.
    if (input.current?.value === value) input.current.value = shown
  }, [shown, value])
  return (
    <>
      <input
        ref={input}
        id={id}
        name={field.name}
        defaultValue={value}
        list={listId}
        placeholder={field.placeholder}
        autocomplete="off"
        spellcheck={false}
      />
      <datalist id={listId}>
        {accountNames().map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  )
}

const Input = ({ field, id, value }: InputProps) => {
  const { kind, name, placeholder } = field
  if (kind === 'account') return <AccountInput field={field} id={id} value={value} />
  if (kind === 'time') {
    return <input id={id} name={name} type="datetime-local" value={value === '' ? '' : fieldOfUtc(value)} />
  }
  if (kind === 'month') return <input id={id} name={name} type="month" value={value} />
  return (
    <input
      id={id}
      name={name}
      value={value}
      placeholder={placeholder}
      autocomplete="off"
      spellcheck={false}
    />
  )
}

const Field = ({ field, value }: { readonly field: FilterField; readonly value: string }) => {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{field.label}</label>
      {field.kind === 'choice' ? (
        <select
          id={id}
          name={field.name}
          value={value}
          onChange={(event) => event.currentTarget.form?.requestSubmit()}
        >
          {field.fallback === undefined ? <option value="">{strings.any}</option> : null}
          {field.choices?.map((choice) => (
            <option key={choice} value={choice}>
              {wordsOf(choice)}
            </option>
          ))}
        </select>
      ) : (
        <Input id={id} field={field} value={value} />
      )}
    </div>
  )
}

interface FilterBarProps {
  readonly fields: ReadonlyArray<FilterField>
  /** The list as saved views name it, if it can be saved. */
  readonly view?: ViewList
  /** Filters that are a part of the path. */
  readonly fixed?: Filters
}

export const FilterBar = ({ fields, fixed = {}, view }: FilterBarProps) => {
  const { pathname, search } = location.value
  const filters = currentFilters(fields)
  const form = (
    <form
      class="filters"
      role="search"
      aria-label={strings.filters.title}
      // A changed address gives the fields its values.
      key={search}
      onSubmit={(event) => {
        event.preventDefault()
        const data = new FormData(event.currentTarget)
        navigate(
          withFilters(
            pathname,
            Object.fromEntries(fields.map((field) => [field.name, valueOf(field, data)])),
          ),
        )
      }}
    >
      {fields.map((field) => (
        <Field key={field.name} field={field} value={filters[field.name] ?? field.fallback ?? ''} />
      ))}
      <div class="actions">
        <button type="submit" class="primary">
          {strings.filters.apply}
        </button>
        {Object.keys(filters).length > 0 ? <a href={pathname}>{strings.filters.clear}</a> : null}
        <CopyButton
          label={strings.filters.copy}
          text={`${window.location.origin}${withFilters(pathname, filters)}`}
        />
      </div>
    </form>
  )
  return (
    <>
      {form}
      {view === undefined ? null : <SaveView key={search} list={view} filters={{ ...filters, ...fixed }} />}
    </>
  )
}
