/** The filters of a list. They are in its address, so that people can send it to a colleague. */
import { useId } from 'preact/hooks'
import { fieldOfUtc, utcOfField } from '../format/time.ts'
import { wordsOf } from '../format/number.ts'
import { location, navigate } from '../routing/location.ts'
import { type Filters, filtersOf, withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'
import { CopyButton } from './basics.tsx'

export interface FilterField {
  readonly name: string
  readonly label: string
  readonly kind: 'text' | 'choice' | 'time' | 'month'
  readonly choices?: ReadonlyArray<string>
  readonly placeholder?: string
}

/** The filters of the current address that a list knows. */
export const currentFilters = (fields: ReadonlyArray<FilterField>): Filters =>
  filtersOf(
    location.value.search,
    fields.map(({ name }) => name),
  )

const valueOf = (field: FilterField, data: FormData): string => {
  const value = data.get(field.name)
  if (typeof value !== 'string') return ''
  return field.kind === 'time' ? (utcOfField(value) ?? '') : value.trim()
}

const Input = ({
  field,
  id,
  value,
}: {
  readonly field: FilterField
  readonly id: string
  readonly value: string
}) => {
  const { kind, name, placeholder } = field
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
          <option value="">{strings.any}</option>
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

export const FilterBar = ({ fields }: { readonly fields: ReadonlyArray<FilterField> }) => {
  const { pathname, search } = location.value
  const filters = currentFilters(fields)
  return (
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
        <Field key={field.name} field={field} value={filters[field.name] ?? ''} />
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
}
