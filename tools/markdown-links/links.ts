/** Finds relative links in markdown files whose file or heading does not exist. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Inline links and images. The target ends at a space, because a title may follow. */
const LINK = /\[[^\]]*\]\((?<target>[^)\s]+)[^)]*\)/gu
const HEADING = /^#{1,6} (?<text>.+?)\s*$/gmu

/** The text without code blocks and code spans, which may look like links. */
const withoutCode = (markdown: string): string =>
  markdown.replaceAll(/^ *```[\s\S]*?^ *```/gmu, '').replaceAll(/`[^`\n]*`/gu, '')

/** The anchor that GitHub gives to a heading. */
const anchorOf = (heading: string): string =>
  heading
    .replaceAll(/\[(?<text>[^\]]*)\]\([^)]*\)/gu, '$<text>')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

/** All anchors of a page. GitHub adds a number to repeated headings. */
export const anchorsOf = (markdown: string): ReadonlySet<string> => {
  const anchors = new Set<string>()
  const count = new Map<string, number>()
  for (const { groups } of markdown.replaceAll(/^ *```[\s\S]*?^ *```/gmu, '').matchAll(HEADING)) {
    const anchor = anchorOf(groups!['text']!)
    const repeats = count.get(anchor) ?? 0
    count.set(anchor, repeats + 1)
    anchors.add(repeats === 0 ? anchor : `${anchor}-${repeats}`)
  }
  return anchors
}

/** The broken links of one file, as "file: target". `root` is the folder of the repository. */
export const brokenLinks = (root: string, file: string): ReadonlyArray<string> => {
  const text = withoutCode(readFileSync(join(root, file), 'utf8'))
  return [...text.matchAll(LINK)].flatMap(({ groups }) => {
    const target = groups!['target']!
    if (/^[a-z]+:/u.test(target) || target.startsWith('/')) return []
    const [path = '', anchor] = target.split('#', 2)
    const linked = path === '' ? file : normalize(join(dirname(file), decodeURI(path)))
    const isBroken =
      !existsSync(join(root, linked)) ||
      (anchor !== undefined &&
        statSync(join(root, linked)).isFile() &&
        linked.endsWith('.md') &&
        !anchorsOf(readFileSync(join(root, linked), 'utf8')).has(anchor))
    return isBroken ? [`${file}: ${target}`] : []
  })
}
