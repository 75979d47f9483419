/** API keys of accounts. */
import { KeyRequests, Keys } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { ACCOUNT_NOT_FOUND, CURSOR_INVALID, REQUEST_UNIDENTIFIED } from './refusals.ts'

const KEY_NOT_FOUND = { key_not_found: { message: 'There is no such key.', param: 'id' } }
const KEY_REVOKED = { key_revoked: { message: 'The key is revoked already, or has expired.', param: 'id' } }

const NOT_CERTIFIED = {
  not_certified: { message: 'The account is not certified for live keys.', param: 'account' },
}
const SECOND_PERSON = {
  second_person_required: { message: 'A live key of this hub needs two persons: request it.' },
}

export const keys: EndpointGroup = {
  name: 'keys',
  title: 'API keys',
  description: 'The keys of accounts. A key is shown once, when it is issued.',
  endpoints: [
    ...list({
      operation: 'keys.list',
      method: 'GET',
      path: '/v1/keys',
      summary: 'List keys',
      description: 'Keys, newest first. `ended`: also revoked and expired ones.',
      useCase: Keys.list,
      defaults: { ended: false },
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'keys.read',
      method: 'GET',
      path: '/v1/keys/:id',
      summary: 'Read a key',
      description: 'A key with its last use, and without its value.',
      useCase: Keys.get,
      refusals: KEY_NOT_FOUND,
    }),
    endpoint({
      operation: 'keys.issue',
      method: 'POST',
      path: '/v1/keys',
      summary: 'Issue a key',
      description:
        'The answer contains the key, once. A live key requires a certified account. With `scopes`, the key may do only a part of what others may: use it after all processes have this version.',
      useCase: Keys.issue,
      refusals: { ...ACCOUNT_NOT_FOUND, ...NOT_CERTIFIED, ...SECOND_PERSON },
    }),
    endpoint({
      operation: 'keys.rotate',
      method: 'POST',
      path: '/v1/keys/:id/rotate',
      summary: 'Rotate a key',
      description:
        'Issues another key for the same account with the same scopes, and revokes this one after an overlap.',
      useCase: Keys.rotate,
      refusals: { ...KEY_NOT_FOUND, ...KEY_REVOKED, ...SECOND_PERSON },
    }),
    endpoint({
      operation: 'keys.revoke',
      method: 'POST',
      path: '/v1/keys/:id/revoke',
      summary: 'Revoke a key',
      description: 'The key stops working within three seconds.',
      useCase: Keys.revoke,
      refusals: { ...KEY_NOT_FOUND, ...KEY_REVOKED },
    }),
    endpoint({
      operation: 'keys.allow_addresses',
      method: 'POST',
      path: '/v1/keys/:id/allowed_addresses',
      summary: 'Set the addresses of a key',
      description:
        'The addresses and networks that may use the key. `null`: any. If a live key needs two persons, the new networks must be inside of the old ones.',
      useCase: Keys.allow,
      refusals: { ...KEY_NOT_FOUND, ...KEY_REVOKED, ...SECOND_PERSON },
    }),
    ...list({
      operation: 'keys.list_requests',
      method: 'GET',
      path: '/v1/key_requests',
      summary: 'List requested live keys',
      description:
        'The live keys that another person must confirm, newest first. `open=false` lists all requests.',
      useCase: KeyRequests.list,
      defaults: { open: true },
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'keys.request',
      method: 'POST',
      path: '/v1/key_requests',
      summary: 'Request a live key',
      description: 'Another person confirms it within a week. Until then, there is no key.',
      useCase: KeyRequests.request,
      refusals: { ...ACCOUNT_NOT_FOUND, ...NOT_CERTIFIED },
    }),
    endpoint({
      operation: 'keys.request_rotation',
      method: 'POST',
      path: '/v1/keys/:id/request_rotation',
      summary: 'Request the rotation of a live key',
      description:
        'Another person confirms it within a week, as another requested live key. Until then, nothing changes.',
      useCase: KeyRequests.requestRotation,
      refusals: {
        ...KEY_NOT_FOUND,
        ...KEY_REVOKED,
        one_person_enough: { message: 'A test key needs one person.', param: 'id' },
      },
    }),
    endpoint({
      operation: 'keys.confirm',
      method: 'POST',
      path: '/v1/key_requests/:id/confirm',
      summary: 'Confirm a live key',
      description:
        'Issues the live key that another person requested, and ends the key that it replaces after the overlap. The answer contains the key, once.',
      useCase: KeyRequests.confirm,
      refusals: {
        ...NOT_CERTIFIED,
        key_revoked: { message: 'The key to replace is revoked already, or has expired.' },
        key_request_not_found: { message: 'There is no such request.', param: 'id' },
        same_person: { message: 'Another person must confirm it.' },
        request_unidentified: REQUEST_UNIDENTIFIED,
        key_request_expired: { message: 'The request is older than a week.' },
        already_confirmed: { message: 'The request was confirmed already.' },
      },
    }),
  ],
}
