/** Scopes: what an API key may do. Source: AUTH-16 to AUTH-18. */

/** `send`: messages and batches. `read`: every GET. `manage`: every other change. */
export const SCOPES = ['send', 'read', 'manage'] as const
export type Scope = (typeof SCOPES)[number]

/** The scopes of a key; `null`: all, also those of later versions. */
export type KeyScopes = ReadonlyArray<Scope> | null

/** In the order of `SCOPES` and without repetitions. All of them are the same as no restriction. */
export const keyScopes = (wanted: KeyScopes): KeyScopes => {
  const scopes = SCOPES.filter((scope) => wanted?.includes(scope) ?? true)
  return scopes.length === SCOPES.length ? null : scopes
}

export const hasScope = (scopes: KeyScopes, scope: Scope): boolean => scopes?.includes(scope) ?? true

/** The scopes of a key by name, for display. */
export const scopeNames = (scopes: KeyScopes): ReadonlyArray<Scope> => scopes ?? SCOPES
