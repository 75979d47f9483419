/**
 * Checks the licences of all packages, and writes THIRD-PARTY.md from package-lock.json.
 *
 *   node infra/supply/licences.ts
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Lock, type Package, productionPackages, readLock, ROOT } from './packages.ts'

export const PAGE = join(ROOT, 'THIRD-PARTY.md')

/** Licences allowed in the image: permissive ones, without obligations for our own code. */
const ALLOWED_IN_IMAGE: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'Unlicense',
])
/** Licences allowed for tools. MPL-2.0 and PSF-2.0 set no obligations for tools that we do not distribute. */
const ALLOWED_FOR_TOOLS: ReadonlySet<string> = new Set([...ALLOWED_IN_IMAGE, 'MPL-2.0', 'PSF-2.0'])

/** One sentence for each package whose licence is not allowed. */
export const licenceProblems = (lock: Lock): ReadonlyArray<string> => {
  const production = productionPackages(lock)
  const inTheImage = new Set(production.map(({ path }) => path))
  const ofImage = production
    .filter(({ isOurs, licence }) => !isOurs && (licence === null || !ALLOWED_IN_IMAGE.has(licence)))
    .map(
      ({ licence, name, version }) => `${name} ${version} is in the image under ${licence ?? 'no licence'}`,
    )
  const ofTools = Object.entries(lock).flatMap(([path, { license, link, optional, version }]) => {
    if (link === true || !path.startsWith('node_modules/') || inTheImage.has(path)) return []
    // npm records a licence on installation, so packages for other platforms have none here.
    if (license === undefined && optional === true) return []
    return license !== undefined && ALLOWED_FOR_TOOLS.has(license)
      ? []
      : [
          `${path.replace('node_modules/', '')} ${version ?? ''} is among the tools under ${license ?? 'no licence'}`,
        ]
  })
  return [...ofImage, ...ofTools]
}

const cellsOf = ({ licence, name, version }: Package): ReadonlyArray<string> => [
  `[${name}](https://www.npmjs.com/package/${name}/v/${version})`,
  version,
  licence ?? '',
]

const HEAD = ['package', 'version', 'licence'] as const

/** A Markdown table with padded columns, as oxfmt formats it. */
const table = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = HEAD.map((_, column) =>
    Math.max(...[HEAD, ...rows].map((cells) => cells[column]?.length ?? 0)),
  )
  const line = (cells: ReadonlyArray<string>): string =>
    `| ${cells.map((text, column) => text.padEnd(widths[column] ?? 0)).join(' | ')} |`
  return [line(HEAD), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

export const thirdPartyPage = (lock: Lock): string => {
  const others = productionPackages(lock).filter(({ isOurs }) => !isOurs)
  return `# Third-party software

The image contains these third-party packages, each with its licence in \`node_modules\`. This page is
generated from package-lock.json by \`node infra/supply/licences.ts\`. A test compares it with the lock
file, and the licences with the list of accepted licences.

${table(others.map(cellsOf))}

The image also contains Node.js ${lock['node_modules/node']?.version ?? ''} (MIT, and the licences in its own LICENSE file), and from Debian
the C library (LGPL-2.1-or-later) and the runtime libraries of GCC (GPL-3.0-or-later with the GCC
Runtime Library Exception), unchanged, with their licences in \`/usr/share/doc\`. PostgreSQL, Redis,
Kafka, Prometheus and Grafana are separate programs and not part of the image.
`
}

if (import.meta.main) {
  const lock = readLock(join(ROOT, 'package-lock.json'))
  writeFileSync(PAGE, thirdPartyPage(lock))
  for (const problem of licenceProblems(lock)) console.error(problem)
}
