/**
 * What one person requests and another one confirms: an erasure
 * (docs/decisions/persons.md#erasures-by-two-persons) or a live key
 * (docs/decisions/persons.md#live-keys-by-two-persons). A person is known by an identity, not by a name
 * (docs/decisions/persons.md#identity).
 */

/** A second person answers within a working week. */
export const CONFIRMED_WITHIN_SECONDS = 7 * 86_400

export interface Person {
  /** `iss|sub` of the identity provider, or a source of {@link SELF_NAMED_SOURCES} and a name. */
  readonly id: string
  /** For people. Two persons may have the same name. */
  readonly name: string
}

/** Where people choose their name themselves: the command line, and login links of local hubs. */
export const SELF_NAMED_SOURCES = ['hubctl', 'link'] as const

const isSelfNamed = ({ id }: Person): boolean =>
  SELF_NAMED_SOURCES.some((source) => id.startsWith(`${source}|`))

/**
 * Whether two identities belong to one person. The identity provider gives each person one subject. A name
 * that somebody chose says less, so such a person is also whoever has the same name.
 */
const isSamePerson = (one: Person, other: Person): boolean =>
  one.id === other.id || ((isSelfNamed(one) || isSelfNamed(other)) && one.name === other.name)

/**
 * Why a confirmation is refused. `same_person`: who made the request cannot confirm it. `unidentified`: an
 * earlier version recorded the request without the identity, so nobody can be another person.
 */
export type ConfirmationRefused = 'already_confirmed' | 'expired' | 'same_person' | 'unidentified'

interface ConfirmableRequest {
  readonly isConfirmed: boolean
  readonly isExpired: boolean
  /** `id`: `null` in a request of an earlier version. */
  readonly requestedBy: { readonly id: string | null; readonly name: string }
}

/** Whether a person may confirm a request; `null`: yes. */
export const confirmationRefusal = (
  { isConfirmed, isExpired, requestedBy: { id, name } }: ConfirmableRequest,
  confirmedBy: Person,
): ConfirmationRefused | null => {
  if (isConfirmed) return 'already_confirmed'
  if (isExpired) return 'expired'
  if (id === null) return 'unidentified'
  return isSamePerson({ id, name }, confirmedBy) ? 'same_person' : null
}
