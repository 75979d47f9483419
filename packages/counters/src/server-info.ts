/** What a Redis server tells about itself with `INFO`. */

/** A field of the answer; `unknown` if it has none of this name. */
export const infoField = (info: string, name: string): string =>
  new RegExp(`^${name}:(.*)$`, 'mu').exec(info)?.[1]?.trim() ?? 'unknown'

/** `single`: it has all keys. `node`: it is a node of a cluster, and has some of them. */
export type ServerKind = 'single' | 'node'

/**
 * The code of the failure of a server that cannot serve, although it accepts the connection; `null`: it can. A node of
 * a cluster has only some of the keys, and a Sentinel has none. A replica refuses writes: it is not a primary yet, or
 * not any more.
 */
export const unusableMode = (info: string, kind: ServerKind): 'CLUSTER' | 'SENTINEL' | 'READONLY' | null => {
  if (infoField(info, 'redis_mode') === 'sentinel') return 'SENTINEL'
  if (kind === 'single' && infoField(info, 'cluster_enabled') === '1') return 'CLUSTER'
  return infoField(info, 'role') === 'slave' ? 'READONLY' : null
}
