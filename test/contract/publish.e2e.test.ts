/**
 * The packages for other services can be published to a private registry, and installed from it, with npm.
 * The registry is a small server with the requests of npm that publish and install:
 * https://github.com/npm/registry/blob/main/docs/REGISTRY-API.md
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packPackageOnce } from '../support/client-package.ts'
import { runTool } from '../support/external-tools.ts'

const TOKEN = 'npm_token_of_this_test'
const WITHIN_MS = 120_000

interface Manifest {
  readonly name: string
  readonly version: string
  readonly dist: { readonly integrity: string; readonly tarball: string }
}
interface Published {
  readonly 'dist-tags': Readonly<Record<string, string>>
  readonly versions: Readonly<Record<string, Manifest>>
  readonly _attachments: Readonly<Record<string, { readonly data: string }>>
}

const published = new Map<string, Published>()
let server: Server
let registry = ''
let folder = ''

beforeAll(async () => {
  server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const answer = (status: number, body: string | Buffer): void => {
        response.writeHead(status).end(body)
      }
      if (request.headers.authorization !== `Bearer ${TOKEN}`) return answer(401, '{}')
      const path = decodeURIComponent(request.url ?? '').slice(1)
      const [name = '', file] = path.split('/-/')
      if (request.method === 'PUT') {
        published.set(name, JSON.parse(Buffer.concat(chunks).toString()) as Published)
        return answer(201, '{}')
      }
      const found = published.get(name)
      if (found === undefined) return answer(404, '{}')
      if (file === undefined) return answer(200, JSON.stringify({ name, ...found, _attachments: undefined }))
      const [attachment] = Object.values(found._attachments)
      return answer(200, Buffer.from(attachment?.data ?? '', 'base64'))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  registry = `http://127.0.0.1:${port}/`
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'publish-'))
  // As in a pipeline: the registry of the scope, and a token for it.
  writeFileSync(
    join(folder, '.npmrc'),
    `@sms-delivery-hub:registry=${registry}\n//127.0.0.1:${port}/:_authToken=${TOKEN}\n`,
  )
  writeFileSync(join(folder, 'package.json'), '{"private": true}')
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

// `npm --silent` sets the level of this process and its children, so the commands choose their own.
const npm = (...args: ReadonlyArray<string>) =>
  runTool(
    'npm',
    [...args, '--loglevel=notice', '--no-audit', '--no-fund', '--cache', join(folder, 'cache')],
    {
      cwd: folder,
      withinMs: WITHIN_MS,
    },
  )

describe('the packages for other services', () => {
  it('are published to a private registry, and work when they are installed from it', async () => {
    const files = {
      '@sms-delivery-hub/client': await packPackageOnce('packages/client'),
      '@sms-delivery-hub/cli': await packPackageOnce('apps/cli'),
    }
    for (const [name, file] of Object.entries(files)) {
      const tried = await npm('publish', file, '--dry-run')
      expect(tried.code, tried.text).toBe(0)
      expect(tried.text).toContain(`+ ${name}@`)
      expect(published.has(name)).toBe(false)
      const done = await npm('publish', file)
      expect(done.code, done.text).toBe(0)
      const { versions, _attachments } = published.get(name)!
      const [version] = Object.values(versions)
      const [attachment] = Object.values(_attachments)
      const hash = createHash('sha512')
        .update(Buffer.from(attachment?.data ?? '', 'base64'))
        .digest('base64')
      expect(version).toMatchObject({ name, dist: { integrity: `sha512-${hash}` } })
    }

    const installed = await npm('install', ...Object.keys(files))
    expect(installed.code, installed.text).toBe(0)
    const [version] = Object.keys(published.get('@sms-delivery-hub/cli')!.versions)
    const ran = await runTool(join(folder, 'node_modules/.bin/hub'), ['--version'], { withinMs: WITHIN_MS })
    expect(ran).toMatchObject({ code: 0, text: expect.stringContaining(version ?? '') })
    writeFileSync(
      join(folder, 'program.mjs'),
      "import { createHubClient } from '@sms-delivery-hub/client'\nconsole.log(typeof createHubClient)\n",
    )
    const imported = await runTool(process.execPath, [join(folder, 'program.mjs')], { withinMs: WITHIN_MS })
    expect(imported).toEqual({ code: 0, text: 'function\n' })
  })
})
