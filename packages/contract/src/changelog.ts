/**
 * The changelog at `/docs/changelog`: `docs/changelog.md` as HTML. It uses only headings,
 * paragraphs, lists, code and links, so a few lines render it.
 */
import { readFileSync } from 'node:fs'
import { escapeHtml, page } from './html.ts'

export const CHANGELOG_PATH = '/docs/changelog'

const FILE = new URL('../../../docs/changelog.md', import.meta.url)

/** Links to other pages of the documentation, which the hub does not serve, become plain text. */
const inline = (text: string): string =>
  escapeHtml(text)
    .replaceAll(/`(?<code>[^`]+)`/gu, '<code>$<code></code>')
    .replaceAll(/\*\*(?<strong>[^*]+)\*\*/gu, '<strong>$<strong></strong>')
    .replaceAll(/\[(?<name>[^\]]+)\]\((?<url>[^)\s]+)\)/gu, (_all, name: string, url: string) =>
      /^(?:https:\/\/|\/)/u.test(url) ? `<a href="${url}">${name}</a>` : name,
    )

/** A block of lines without an empty line in it. */
const block = (lines: ReadonlyArray<string>): string => {
  const [first = ''] = lines
  const heading = /^(?<marks>#{1,3}) (?<text>.+)$/u.exec(first)?.groups
  if (heading !== undefined) {
    const level = heading['marks']?.length ?? 1
    const text = heading['text'] ?? ''
    const rest = lines.slice(1)
    const id = level === 2 ? ` id="${escapeHtml(text.toLowerCase().replaceAll(/[^a-z0-9.]+/gu, '-'))}"` : ''
    return `<h${level}${id}>${inline(text)}</h${level}>${rest.length === 0 ? '' : `\n${block(rest)}`}`
  }
  if (!first.startsWith('- ')) return `<p>${inline(lines.join(' '))}</p>`
  const items = lines.reduce<ReadonlyArray<string>>(
    (all, line) =>
      line.startsWith('- ')
        ? [...all, line.slice(2)]
        : [...all.slice(0, -1), `${all.at(-1) ?? ''} ${line.trim()}`],
    [],
  )
  return `<ul>\n${items.map((item) => `<li>${inline(item)}</li>`).join('\n')}\n</ul>`
}

/** Renders the Markdown of the changelog. */
export const renderChangelog = (markdown: string): string =>
  page(
    'Changelog',
    markdown
      .split(/\n{2,}/u)
      .map((text) => text.split('\n').filter((line) => line !== ''))
      .filter((lines) => lines.length > 0)
      .map(block)
      .join('\n'),
  )

export const changelogHtml = (): string => renderChangelog(readFileSync(FILE, 'utf8'))
