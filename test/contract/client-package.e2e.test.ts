/**
 * The packed client package: its files and its size, and that it works in CommonJS and ES modules, with
 * old module resolution, in NestJS, Next.js and Bun, and without anything of Node.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { eventually, freePort } from '@hub/testkit'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type ClientPackage,
  installClient,
  packPackage,
  packPackageOnce,
  runOrThrow,
} from '../support/client-package.ts'
import { nodeTool, npmTool, onlyIn, orSkip, runTool } from '../support/external-tools.ts'
import { compileProject } from '../support/typescript-project.ts'

const SECRET = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
const BODY = JSON.stringify([{ id: 'evt_1', object: 'event', type: 'message.sent', note: 'Заказ ✓' }])
const STEP_WITHIN_MS = 170_000

const NEST = {
  '@nestjs/common': '11.2.10',
  '@nestjs/core': '11.2.10',
  '@nestjs/platform-express': '11.2.10',
  '@types/express': '5.0.6',
  '@types/node': '24.19.2',
  'reflect-metadata': '0.2.2',
  rxjs: '7.8.2',
  typescript: '5.9.3',
} as const
const NEXT = { next: '16.4.6', react: '19.3.1', 'react-dom': '19.3.1' } as const

/** What a browser or an edge runtime loads, minified and compressed. It is 5.6 KiB now. */
const BUNDLE_BUDGET_BYTES = 6 * 1024
/** What npm downloads. Most of it are the types. It is 65 KiB now. */
const PACKAGE_BUDGET_BYTES = 90 * 1024

/** The oldest Node that the package allows, the next line of it, and that of this repository. */
const NODES = ['20.3.0', '22.23.3', process.versions.node]

/** Calls a server with everything for which the client needs its platform. `library`: the expression that loads it. */
const everything = (library: string): string => `
  const { createServer } = await import('node:http')
  const { createHubClient, readEvents, signForTest } = ${library}
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const answers = {
        'POST /v1/messages': { id: 'msg_1' },
        'POST /v1/messages/batch': { results: [{ result: 'accepted' }] },
        'GET /v1/events': { data: [{ id: 'evt_1' }], has_more: false, next_cursor: 'evt_1' },
      }
      const answer = answers[request.method + ' ' + request.url.split('?')[0]]
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const hub = createHubClient({ baseUrl: 'http://127.0.0.1:' + server.address().port, apiKey: 'hub_test_x' })
  const ending = new AbortController()
  const options = { signal: ending.signal }
  const message = { to: '+79000000001', class: 'otp', template: 'otp_code' }
  const done = [(await hub.messages.send(message, options)).id]
  const many = [{ ...message, client_ref: 'a' }]
  for await (const { result } of hub.messages.sendAll(many, { ...options, batchSize: 1 })) done.push(result)
  for await (const { id } of hub.events.follow(null, options)) {
    done.push(id)
    ending.abort()
  }
  const body = JSON.stringify([{ id: 'evt_2' }])
  done.push((await readEvents(body, await signForTest(body, 'whsec_x'), 'whsec_x'))[0].id)
  server.close()
  server.closeAllConnections()
  console.log(done.join(' '))
`

let client: ClientPackage
beforeAll(async () => {
  client = await installClient()
})

const children: Array<ReturnType<typeof spawn>> = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

/** Starts a receiver, and returns its answers to a valid and to an invalid webhook. */
const judge = async (
  command: string,
  args: ReadonlyArray<string>,
  cwd: string,
): Promise<{ readonly good: number; readonly bad: number }> => {
  const port = await freePort()
  const child = spawn(command, [...args], {
    cwd,
    env: { ...process.env, PORT: String(port), HUB_WEBHOOK_SECRET: SECRET, NEXT_TELEMETRY_DISABLED: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
  const post = async (secret: string): Promise<number> => {
    const headers = {
      'content-type': 'application/json',
      'hub-signature': await client.exports.signForTest(BODY, secret),
    }
    return (await fetch(`http://127.0.0.1:${port}/hooks/sms`, { method: 'POST', headers, body: BODY })).status
  }
  const good = await eventually(() => post(SECRET), { everyMs: 200 })
  const bad = await post('whsec_other')
  await eventually(() => output.includes('message.sent evt_1'))
  child.kill('SIGTERM')
  return { good, bad }
}

describe('the packed client package', () => {
  it('contains both builds with their types, the README and the vectors, and nothing else', async () => {
    const packed = await packPackageOnce('packages/client')
    const files = (await runOrThrow('tar', ['-tzf', packed], dirname(packed))).trim().split('\n')
    const kinds = new Set(files.map((file) => file.replace(/^package\//u, '').replace(/\/[\w-]+\./u, '/*.')))
    expect([...kinds].sort()).toEqual([
      'README.md',
      'cjs/*.d.ts',
      'cjs/*.js',
      'cjs/*.json',
      'conformance/*.json',
      'esm/*.d.ts',
      'esm/*.js',
      'esm/*.json',
      'package.json',
    ])
    expect(readFileSync(packed).length).toBeLessThan(PACKAGE_BUDGET_BYTES)
    const manifest = JSON.parse(readFileSync(join(client.installed, 'package.json'), 'utf8'))
    expect(manifest).toMatchObject({
      name: '@sms-delivery-hub/client',
      main: './cjs/index.js',
      types: './cjs/index.d.ts',
    })
    // With `provenance`, npm publishes only from some providers of pipelines.
    expect(manifest).not.toHaveProperty('publishConfig')
    // It runs nothing on installation.
    expect(manifest).not.toHaveProperty('scripts')
    expect(manifest).not.toHaveProperty('dependencies')
    expect(manifest).not.toHaveProperty('private')
  })

  it('has the same bytes each time', async () => {
    const files = [await packPackageOnce('packages/client'), await packPackage('packages/client')]
    const hashes = files.map((file) => createHash('sha256').update(readFileSync(file)).digest('hex'))
    expect(hashes[0]).toBe(hashes[1])
  })

  it('keeps its size budget', async () => {
    const bundle = await rolldown({ input: join(client.installed, 'esm/index.js') })
    const { output } = await bundle.generate({ format: 'esm', minify: true })
    await bundle.close()
    expect(gzipSync(output[0].code).length).toBeLessThan(BUNDLE_BUDGET_BYTES)
  })

  it('works with require and with import', async () => {
    const required = createRequire(join(client.folder, 'program.cjs'))('@sms-delivery-hub/client')
    expect(Object.keys(required).sort()).toEqual(Object.keys(client.exports).sort())
    for (const library of [required, client.exports]) {
      const header = await library.signForTest(BODY, SECRET)
      expect(await library.readEvents(BODY, header, SECRET)).toEqual(JSON.parse(BODY))
      await expect(library.readEvents(BODY, header, 'whsec_other')).rejects.toMatchObject({
        code: 'no_match',
      })
    }
  })

  it.for(NODES)('sends, follows events and verifies webhooks on Node %s', async (version, context) => {
    const { node } =
      version === process.versions.node
        ? { node: process.execPath }
        : await orSkip(context, nodeTool(version))
    const programs = {
      'everything.mjs': everything("await import('@sms-delivery-hub/client')"),
      'everything.cjs': `void (async () => {${everything("require('@sms-delivery-hub/client')")}})()`,
    }
    for (const [name, text] of Object.entries(programs)) {
      writeFileSync(join(client.folder, name), text)
      const ran = await runTool(node, [join(client.folder, name)], { withinMs: STEP_WITHIN_MS })
      expect(ran, name).toEqual({ code: 0, text: 'msg_1 accepted evt_1 evt_2\n' })
    }
    // Older ones than the first of these have no AbortSignal.any.
    const { engines } = JSON.parse(readFileSync(join(client.installed, 'package.json'), 'utf8'))
    expect(engines).toEqual({ node: '>=20.3' })
  })

  it('needs only what edge runtimes have: fetch, WebCrypto, URL, timers and text encoding', async () => {
    const bundle = await rolldown({ input: join(client.installed, 'esm/index.js'), platform: 'neutral' })
    const { output } = await bundle.generate({ format: 'iife', name: 'library' })
    await bundle.close()
    const answer = { id: 'msg_1', status: 'accepted' }
    const names = { AbortController, AbortSignal, TextDecoder, TextEncoder, URL, URLSearchParams, crypto }
    const edge = createContext({
      ...names,
      Uint8Array,
      ArrayBuffer,
      fetch: () => Promise.resolve(Response.json(answer, { status: 202 })),
      setTimeout,
      clearTimeout,
    })
    const library = runInContext(`${output[0].code}; library`, edge)
    const header = await library.signForTest(BODY, SECRET)
    expect(await library.readEvents(BODY, header, SECRET)).toHaveLength(1)
    const hub = library.createHubClient({ baseUrl: 'https://hub.example.com', apiKey: 'hub_test_x' })
    const send = { to: '+79000000001', class: 'otp', template: 'otp_code', variables: { code: '1' } }
    expect(await hub.messages.send(send)).toEqual(answer)
  })
})

describe('a fresh project', () => {
  it('with NestJS, CommonJS and the module resolution node10 compiles and verifies webhooks', async (context) => {
    await orSkip(context, onlyIn('client-frameworks'))
    const tool = await orSkip(context, npmTool('client-nest-1', NEST))
    const { folder } = await installClient(tool.folder)
    mkdirSync(join(folder, 'src'))
    writeFileSync(join(folder, 'src/main.ts'), client.examples.get('nest.ts') ?? '')
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'commonjs' }))
    const compiled = await compileProject(folder, {
      toolFolder: tool.folder,
      compilerOptions: {
        target: 'es2022',
        module: 'commonjs',
        moduleResolution: 'node10',
        experimentalDecorators: true,
        emitDecoratorMetadata: true,
        types: ['node'],
      },
      withinMs: STEP_WITHIN_MS,
    })
    expect(compiled.code, compiled.text).toBe(0)
    expect(await judge(process.execPath, ['out/main.js'], folder)).toEqual({ good: 204, bad: 400 })
  })

  it('with Next.js builds and verifies webhooks', async (context) => {
    await orSkip(context, onlyIn('client-frameworks'))
    const tool = await orSkip(context, npmTool('client-next-1', NEXT))
    // Next.js finds its packages only below the folder of the project, so the project is in that of the tool.
    const folder = mkdtempSync(join(tool.folder, 'project-'))
    const route = join(folder, 'app/hooks/sms')
    mkdirSync(route, { recursive: true })
    const source = client.examples.get('next.ts') ?? ''
    writeFileSync(
      join(route, 'route.js'),
      source.replace('(request: Request): Promise<Response>', '(request)'),
    )
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true }))
    const next = [join(tool.folder, 'node_modules/next/dist/bin/next')]
    mkdirSync(join(folder, 'node_modules/@sms-delivery-hub'), { recursive: true })
    await runOrThrow(
      'cp',
      ['-r', client.installed, join(folder, 'node_modules/@sms-delivery-hub/client')],
      folder,
    )
    const built = await runTool('env', ['NEXT_TELEMETRY_DISABLED=1', process.execPath, ...next, 'build'], {
      cwd: folder,
      withinMs: STEP_WITHIN_MS,
    })
    expect(built.code, built.text).toBe(0)
    const start = ['-H', '127.0.0.1']
    expect(await judge(process.execPath, [...next, 'start', ...start], folder)).toEqual({
      good: 204,
      bad: 400,
    })
    await runOrThrow('rm', ['-rf', folder], tool.folder)
  })

  it('with Bun calls the client', async (context) => {
    const name = `@oven/bun-${process.platform}-${process.arch}`
    const tool = await orSkip(context, npmTool('client-bun-1', { [name]: '1.4.5' }))
    const program = `
      import { readEvents, signForTest } from '@sms-delivery-hub/client'
      const body = ${JSON.stringify(BODY)}
      const events = await readEvents(body, await signForTest(body, 'whsec_x'), 'whsec_x')
      console.log(events[0].id)
    `
    writeFileSync(join(client.folder, 'bun.ts'), program)
    const bun = join(tool.folder, 'node_modules', name, 'bin/bun')
    const ran = await runTool(bun, ['run', join(client.folder, 'bun.ts')], {
      cwd: client.folder,
      withinMs: STEP_WITHIN_MS,
    })
    expect(ran).toEqual({ code: 0, text: 'evt_1\n' })
  })
})
