/** What a Redis server tells about itself with `INFO`. */

/** A field of the answer; `unknown` if it has none of this name. */
export const infoField = (info: string, name: string): string =>
  new RegExp(`^${name}:(.*)$`, 'mu').exec(info)?.[1]?.trim() ?? 'unknown'

/**
 * The code of the failure of a server that the hub cannot use, whatever the settings are
 * (docs/deploying.md#managed-servers); `null`: it can be used. A node of a cluster has only some of the keys, and a
 * Sentinel has none.
 */
export const unusableMode = (info: string): 'CLUSTER' | 'SENTINEL' | null => {
  if (infoField(info, 'cluster_enabled') === '1') return 'CLUSTER'
  return infoField(info, 'redis_mode') === 'sentinel' ? 'SENTINEL' : null
}
