/**
 * Writes the software bill of materials (SBOM) in CycloneDX 1.5: the packages of package-lock.json, the Node that
 * runs this program, and the libraries of Debian if `root` is the root file system of the image. The same
 * contents give the same file, byte for byte.
 *
 *   node infra/supply/sbom.ts [file [root]]   default: `.local/sbom.cdx.json`
 */
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Package, productionPackages, readLock, ROOT } from './packages.ts'
import { debianComponents, nodeComponent, type RuntimeComponent } from './runtime.ts'

/** https://github.com/package-url/purl-spec: encodes the `@` of a scope, but not its slash. */
const purlOf = ({ name, version }: Package): string => `pkg:npm/${name.replace('@', '%40')}@${version}`

/** Converts npm's `sha512-` and base64 to CycloneDX's `SHA-512` and hexadecimal. */
const hashOf = (integrity: string) => {
  const [algorithm = '', digest = ''] = integrity.split('-', 2)
  return { alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') }
}

/** CycloneDX distinguishes SPDX ids from SPDX expressions with operators. */
const licenceOf = (licence: string) =>
  /[ ()]/u.test(licence) ? { expression: licence } : { license: { id: licence } }

/** `runtime`: Node, and the libraries that it uses. */
export const billOfMaterials = (
  packages: ReadonlyArray<Package>,
  version: string,
  runtime: ReadonlyArray<RuntimeComponent> = [],
) => {
  const refs = new Map(packages.map((found) => [found.path, purlOf(found)]))
  const content = {
    components: [
      ...packages.map((found) => ({
        type: found.isOurs ? 'application' : 'library',
        'bom-ref': purlOf(found),
        name: found.name,
        version: found.version,
        purl: purlOf(found),
        ...(found.integrity === null ? {} : { hashes: [hashOf(found.integrity)] }),
        ...(found.licence === null ? {} : { licenses: [licenceOf(found.licence)] }),
      })),
      ...runtime,
    ],
    dependencies: packages.map((found) => ({
      ref: purlOf(found),
      dependsOn: found.dependsOn.map((path) => refs.get(path) ?? path),
    })),
  }
  const digest = createHash('sha256').update(JSON.stringify(content)).digest('hex')
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    // A UUID (version 8) derived from the content, so that the same content gives the same file.
    serialNumber: `urn:uuid:${digest.slice(0, 8)}-${digest.slice(8, 12)}-8${digest.slice(13, 16)}-8${digest.slice(17, 20)}-${digest.slice(20, 32)}`,
    version: 1,
    metadata: { component: { type: 'application', name: 'sms-delivery-hub', version } },
    ...content,
  }
}

/** Returns the number of components. */
export const writeBill = (file: string, root: string | null): number => {
  const lock = readLock(join(ROOT, 'package-lock.json'))
  const runtime = [
    nodeComponent(process.execPath, process.versions.node),
    ...(root === null ? [] : debianComponents(root)),
  ]
  const bill = billOfMaterials(productionPackages(lock), lock['']?.version ?? '', runtime)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(bill, null, 2)}\n`)
  return bill.components.length
}

if (import.meta.main) {
  const [given = '.local/sbom.cdx.json', root] = process.argv.slice(2)
  const file = resolve(ROOT, given)
  console.log(`${file}: ${writeBill(file, root ?? null)} components`)
}
