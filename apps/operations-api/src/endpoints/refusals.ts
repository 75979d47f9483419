/** Refusals that use cases of several subjects have. */

export const CURSOR_INVALID = {
  cursor_invalid: { message: 'The cursor is not from a page of this list.', param: 'cursor' },
}

export const ACCOUNT_NOT_FOUND = {
  account_not_found: { message: 'There is no such account.', param: 'account' },
}

export const RECIPIENT_REFUSALS = {
  recipient_invalid: { message: 'The text is no phone number, hash or receipt.', param: 'recipient' },
  unknown_receipt: { message: 'No erasure has this id.', param: 'recipient' },
}

/** It must be requested again. */
export const REQUEST_UNIDENTIFIED = {
  message: 'An earlier version of the hub recorded the request, without the identity of its person.',
}
