/**
 * Finds relative links in markdown files and in comments of sources whose file or heading does not exist, and
 * constants in markdown files whose value differs from the code.
 */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Inline links and images. The target ends at a space, because a title may follow. */
const LINK = /\[[^\]]*\]\((?<target>[^)\s]+)[^)]*\)/gu
const HEADING = /^#{1,6} (?<text>.+?)\s*$/gmu
/** A page of the documentation, from the folder of the repository. `docs/decisions/` has nothing but pages. */
const PAGE = /(?<![\w/.-])(?:docs\/decisions\/[\w-]+(?:\.md)?|(?:docs|benchmarks)\/[\w/-]+\.md)(?:#[\w-]+)?/gu
/** A link whose text is a constant and its value, `NAME = value`, and whose target has the source. */
const CONSTANT = /\[`(?<name>\w+) = (?<value>[^`]+)`\]\((?<target>[^)\s]+)\)/gu

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

/** Whether a path, from the folder of the repository, is a file or folder, and its page has the anchor. */
const exists = (root: string, path: string, anchor: string | undefined): boolean => {
  const file = join(root, path)
  if (!existsSync(file)) return false
  if (anchor === undefined || !path.endsWith('.md') || !statSync(file).isFile()) return true
  return anchorsOf(readFileSync(file, 'utf8')).has(anchor)
}

/** The broken links of one page, as "file: target". `root` is the folder of the repository. */
export const brokenLinks = (root: string, file: string): ReadonlyArray<string> => {
  const text = withoutCode(readFileSync(join(root, file), 'utf8'))
  return [...text.matchAll(LINK)].flatMap(({ groups }) => {
    const target = groups!['target']!
    if (/^[a-z]+:/u.test(target) || target.startsWith('/')) return []
    const [path = '', anchor] = target.split('#', 2)
    const linked = path === '' ? file : normalize(join(dirname(file), decodeURI(path)))
    return exists(root, linked, anchor) ? [] : [`${file}: ${target}`]
  })
}

/** The pages that a source names and that do not exist, as "file: page". */
export const brokenPages = (root: string, file: string): ReadonlyArray<string> =>
  [...readFileSync(join(root, file), 'utf8').matchAll(PAGE)].flatMap(([page]) => {
    const [path = '', anchor] = page.split('#', 2)
    return exists(root, path, anchor) ? [] : [`${file}: ${page}`]
  })

/** The digits of a number may be in groups: `20_000`. */
const withoutGroups = (value: string): string => value.replaceAll(/(?<=\d)_(?=\d)/gu, '')

/** The values of a constant, or of a field of a constant object, as the source writes them. */
const valuesOf = (source: string, name: string): ReadonlyArray<string> =>
  [
    ...source.matchAll(
      new RegExp(`^ *(?:(?:export )?const ${name}\\b[^=\\n]*= |${name}: )(.+?),?(?: as const)?$`, 'gmu'),
    ),
  ].map((match) => match[1]!)

/** The sources of a link to a constant: a file, or those below a folder, without tests. */
const sourcesOf = (root: string, path: string): ReadonlyArray<string> =>
  !existsSync(join(root, path))
    ? []
    : statSync(join(root, path)).isFile()
      ? [path]
      : globSync('**/*.ts', { cwd: join(root, path) })
          .filter((file) => !file.endsWith('.test.ts'))
          .map((file) => join(path, file))

/** The constants of a page that the linked sources state in another way, as "file: NAME = value, …". */
export const wrongConstants = (root: string, file: string): ReadonlyArray<string> =>
  constantsOf(readFileSync(join(root, file), 'utf8')).flatMap(({ name, target, value }) => {
    const sources = sourcesOf(root, normalize(join(dirname(file), target)))
    const values = sources.flatMap((source) => valuesOf(readFileSync(join(root, source), 'utf8'), name))
    const isRight =
      values.length > 0 && values.every((found) => withoutGroups(found) === withoutGroups(value))
    return isRight
      ? []
      : [`${file}: ${name} = ${value}, but ${target} has ${values.join(' and ') || 'no such constant'}`]
  })

interface StatedConstant {
  readonly name: string
  readonly value: string
  readonly target: string
}

/** The constants that a page states. */
export const constantsOf = (markdown: string): ReadonlyArray<StatedConstant> =>
  [...markdown.matchAll(CONSTANT)].map(({ groups }) => ({
    name: groups!['name']!,
    value: groups!['value']!,
    target: groups!['target']!,
  }))
