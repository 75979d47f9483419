interface Searchable<Needle> {
  readonly indexOf: (needle: Needle, from: number) => number
}

/** How often the needle, of length one, occurs in a text or in bytes. */
export const countIn = <Needle>(searched: Searchable<Needle>, needle: Needle): number => {
  let count = 0
  for (let at = searched.indexOf(needle, 0); at !== -1; at = searched.indexOf(needle, at + 1)) count += 1
  return count
}
