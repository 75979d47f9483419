/** What a Redis server tells about itself with `INFO`. */

/** A field of the answer; `unknown` if it has none of this name. */
export const infoField = (info: string, name: string): string =>
  new RegExp(`^${name}:(.*)$`, 'mu').exec(info)?.[1]?.trim() ?? 'unknown'

/** A node of a cluster has only some of the keys, so the hub does not use it. */
export const isClusterNode = (info: string): boolean => infoField(info, 'cluster_enabled') === '1'
