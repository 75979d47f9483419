/** What the supervisor of a local hub needs. It does not load `effect`, which takes 40 MiB. */
export { API_KEY_RANDOM_BYTES, apiKeyFrom } from './account/api-key.ts'
export { decodeId, type IdPrefix, newId } from './id/id.ts'
