/** Bounds a map: removes its oldest entry if it has more than `limit` entries. */
export const evictOldest = (map: Map<string, unknown>, limit: number): void => {
  const [oldest] = map.keys()
  if (map.size > limit && oldest !== undefined) map.delete(oldest)
}
