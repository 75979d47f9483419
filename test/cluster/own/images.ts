/** The images of a cluster of its own, as archives. Each is made once. */
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cachedTool, runTool } from '../../support/external-tools.ts'
import { imageBuilder } from '../../operating/manifests/image-builder.ts'
import { run } from '../../support/shell.ts'
import { imageOf } from './plan.ts'
import type { Programs } from './programs.ts'

/** An image with one static program. */
interface Single {
  readonly name: string
  /** The folder in the image. */
  readonly folder: string
}

const SINGLE: ReadonlyArray<Single> = [
  ...['pause', 'coredns', 'keda', 'keda-adapter', 'keda-admission-webhooks', 'prometheus-operator'].map(
    (name) => ({
      name,
      folder: '/',
    }),
  ),
  // The operator starts these by their paths in the published images.
  ...['prometheus', 'prometheus-config-reloader'].map((name) => ({ name, folder: '/bin/' })),
]

/** Debian with nginx, which runs without root. */
const NGINX = `
debootstrap --variant=minbase --include=nginx-light trixie "$1/root"
rm -rf "$1/root/var/cache/apt/archives" "$1/root/var/lib/apt/lists"
tar -C "$1/root" -cf "$1/root.tar" .
rm -rf "$1/root"
`
const NGINX_WITHIN_MS = 900_000

/** Where Buildah keeps what it works on. */
const storage = (dir: string): ReadonlyArray<string> => [
  '--root',
  join(dir, 'root'),
  '--runroot',
  join(dir, 'run'),
]

/** Makes an image of one file or archive. Returns the path of its archive. */
const commit = async (
  dir: string,
  name: string,
  target: string,
  add: ReadonlyArray<string>,
  config: ReadonlyArray<string>,
): Promise<void> => {
  const buildah = (...args: ReadonlyArray<string>) =>
    run('buildah', [...storage(dir), ...args], { env: { BUILDAH_ISOLATION: 'chroot' }, withinMs: 300_000 })
  const container = (await buildah('from', 'scratch')).trim()
  await buildah('add', '--quiet', ...add.toSpliced(-2, 0, container))
  await buildah('config', ...config, container)
  await buildah('commit', '--quiet', '--rm', container, imageOf(name))
  rmSync(`${target}.new`, { force: true })
  await buildah('push', '--quiet', imageOf(name), `docker-archive:${target}.new:${imageOf(name)}`)
  await buildah('rmi', imageOf(name))
  renameSync(`${target}.new`, target)
}

/** The image of the hub of this checkout. It is always built, because the files may have changed. */
const buildHub = async (target: string): Promise<void> => {
  const builder = await imageBuilder()
  if ('missing' in builder) throw new Error(builder.missing)
  try {
    const { code, text } = await builder.buildImage()
    if (code !== 0) throw new Error(text.slice(-3000))
    await builder.save(target, imageOf('sms-delivery-hub'))
  } finally {
    await builder.remove()
  }
}

export interface ImageArchive {
  readonly name: string
  readonly path: string
  readonly mebibytes: number
}

/** Makes all images that do not exist. `keepHub`: uses the image of the hub that exists. */
export const makeImages = async (
  programs: Programs,
  cacheDir: string,
  keepHub: boolean,
  report: (line: string) => void,
): Promise<ReadonlyArray<ImageArchive>> => {
  const folder = join(cacheDir, 'images')
  const work = join(cacheDir, 'buildah')
  mkdirSync(folder, { recursive: true })
  const archives: Array<ImageArchive> = []
  const make = async (
    name: string,
    isKept: boolean,
    build: (target: string) => Promise<void>,
  ): Promise<void> => {
    const path = join(folder, `${name}.tar`)
    if (!isKept || !existsSync(path)) {
      const began = performance.now()
      await build(path)
      report(`image ${name} in ${Math.round((performance.now() - began) / 1000)} s`)
    }
    archives.push({ name, path, mebibytes: Math.round(statSync(path).size / 1024 / 1024) })
  }
  for (const { folder: inImage, name } of SINGLE) {
    await make(name, true, (target) =>
      commit(
        work,
        name,
        target,
        ['--chmod', '755', programs.path(name), `${inImage}${name}`],
        ['--entrypoint', JSON.stringify([`${inImage}${name}`]), '--user', '65532:65532'],
      ),
    )
  }
  await make('nginx', true, async (target) => {
    const found = await cachedTool('nginx-trixie', (into) =>
      runTool('bash', ['-euo', 'pipefail', '-c', NGINX, 'bash', into], {
        cwd: dirname(into),
        withinMs: NGINX_WITHIN_MS,
      }),
    )
    if ('missing' in found) throw new Error(found.missing)
    await commit(
      work,
      'nginx',
      target,
      [join(found.folder, 'root.tar'), '/'],
      ['--entrypoint', JSON.stringify(['/usr/sbin/nginx', '-g', 'daemon off;']), '--user', '33:33'],
    )
  })
  await make('sms-delivery-hub', keepHub, buildHub)
  return archives
}
