/**
 * What one person requests and another one confirms: an erasure (docs/decisions/0071) or a live key
 * (docs/decisions/0079).
 */

/** A second person answers within a working week. */
export const CONFIRMED_WITHIN_SECONDS = 7 * 86_400

/** Why a confirmation is refused. `same_person`: who made the request cannot confirm it. */
export type ConfirmationRefused = 'already_confirmed' | 'expired' | 'same_person'

interface ConfirmableRequest {
  readonly isConfirmed: boolean
  readonly isExpired: boolean
  readonly requestedBy: string
}

/** Whether a person may confirm a request; `null`: yes. */
export const confirmationRefusal = (
  { isConfirmed, isExpired, requestedBy }: ConfirmableRequest,
  confirmedBy: string,
): ConfirmationRefused | null => {
  if (isConfirmed) return 'already_confirmed'
  if (isExpired) return 'expired'
  return requestedBy === confirmedBy ? 'same_person' : null
}
