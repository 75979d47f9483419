/** What the hub runs on, for the bill of materials: Node, and in the image the libraries of Debian. */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A component of CycloneDX that is no package of npm. */
export interface RuntimeComponent {
  readonly type: 'application' | 'library' | 'operating-system'
  readonly 'bom-ref': string
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly cpe?: string
  readonly hashes?: ReadonlyArray<{ readonly alg: string; readonly content: string }>
}

/** The program `file` is Node of this version. Its name in CPE is the one of the National Vulnerability Database. */
export const nodeComponent = (file: string, version: string): RuntimeComponent => ({
  type: 'application',
  'bom-ref': `pkg:generic/node@${version}`,
  name: 'node',
  version,
  purl: `pkg:generic/node@${version}`,
  cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
  hashes: [{ alg: 'SHA-256', content: createHash('sha256').update(readFileSync(file)).digest('hex') }],
})

/** A field of a text in which each line is `<name><separator><value>`. */
const fieldOf = (text: string, name: string, separator: string): string | null => {
  const line = text.split('\n').find((one) => one.startsWith(name + separator))
  return line === undefined ? null : line.slice(name.length + separator.length).replaceAll('"', '')
}

/** The release of Debian, from the text of `/etc/os-release`. */
export const releaseComponent = (osRelease: string): RuntimeComponent => {
  const name = fieldOf(osRelease, 'ID', '=') ?? ''
  const version = fieldOf(osRelease, 'VERSION_ID', '=') ?? ''
  return { type: 'operating-system', 'bom-ref': `${name}-${version}`, name, version }
}

/**
 * A package of Debian, from its status (`dpkg-query --status`). Advisories of Debian name the source package, so
 * scanners read it from the qualifier `upstream`.
 */
export const debianComponent = (status: string, release: RuntimeComponent): RuntimeComponent => {
  const name = fieldOf(status, 'Package', ': ') ?? ''
  const version = fieldOf(status, 'Version', ': ') ?? ''
  const architecture = fieldOf(status, 'Architecture', ': ') ?? ''
  // `gcc-14 (14.2.0-19)`: a version of the source follows if it is another one.
  const source = fieldOf(status, 'Source', ': ')?.split(' ')[0]
  const purl =
    `pkg:deb/${release.name}/${encodeURIComponent(name)}@${encodeURIComponent(version)}` +
    `?arch=${architecture}&distro=${release['bom-ref']}` +
    (source === undefined ? '' : `&upstream=${encodeURIComponent(source)}`)
  return { type: 'library', 'bom-ref': purl, name, version, purl }
}

/** The components of a root file system that `infra/image/root.sh` made. */
export const debianComponents = (root: string): ReadonlyArray<RuntimeComponent> => {
  const folder = join(root, 'var/lib/dpkg/status.d')
  if (!existsSync(folder)) return []
  const release = releaseComponent(readFileSync(join(root, 'etc/os-release'), 'utf8'))
  const packages = readdirSync(folder)
    .toSorted()
    .map((name) => debianComponent(readFileSync(join(folder, name), 'utf8'), release))
  return [release, ...packages]
}
