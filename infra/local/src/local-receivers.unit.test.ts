import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AddressInfo } from 'node:net'
import { connect, createServer } from 'node:tls'
import { makeCertificateAuthority } from '@hub/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { receiverTlsFile, withLocalReceivers } from './local-receivers.ts'

let dataDir = ''
beforeEach(() => {
  dataDir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'local-receivers-'))
})
afterEach(() => rmSync(dataDir, { recursive: true, force: true }))

const trusted = (environment: Readonly<Record<string, string | undefined>>): string =>
  readFileSync(environment['HUB_WEBHOOK_CA_FILE'] ?? '', 'utf8')

describe('a local hub', () => {
  it('trusts the certificate of receivers on this machine, and only these hosts', async () => {
    const environment = await withLocalReceivers(dataDir, { OTHER: 'kept' })
    expect(environment).toMatchObject({ OTHER: 'kept', HUB_WEBHOOK_ALLOWED_HOSTS: 'localhost,127.0.0.1' })
    const { cert, key } = JSON.parse(readFileSync(receiverTlsFile(dataDir), 'utf8'))
    expect(key).toContain('PRIVATE KEY')
    expect(statSync(receiverTlsFile(dataDir)).mode & 0o777).toBe(0o600)
    const certificate = new X509Certificate(cert)
    expect(certificate.verify(new X509Certificate(trusted(environment)).publicKey)).toBe(true)
    expect(certificate.checkHost('localhost')).toBe('localhost')
    expect(certificate.checkIP('127.0.0.1')).toBe('127.0.0.1')
    expect(certificate.checkHost('example.com')).toBeUndefined()
  })

  it('keeps its certificate, so that a running receiver still has the right one', async () => {
    await withLocalReceivers(dataDir, {})
    const first = readFileSync(receiverTlsFile(dataDir), 'utf8')
    await withLocalReceivers(dataDir, {})
    expect(readFileSync(receiverTlsFile(dataDir), 'utf8')).toBe(first)
    writeFileSync(receiverTlsFile(dataDir), 'damaged')
    await withLocalReceivers(dataDir, {})
    expect(JSON.parse(readFileSync(receiverTlsFile(dataDir), 'utf8'))).toHaveProperty('cert')
  })

  it('also keeps the hosts and authorities that the developer allows', async () => {
    const file = join(dataDir, 'own.pem')
    writeFileSync(file, 'own authority')
    const own = { HUB_WEBHOOK_ALLOWED_HOSTS: 'hooks.test', HUB_WEBHOOK_CA_FILE: file }
    const environment = await withLocalReceivers(dataDir, own)
    expect(environment['HUB_WEBHOOK_ALLOWED_HOSTS']).toBe('localhost,127.0.0.1,hooks.test')
    expect(trusted(environment)).toContain('own authority')
    await expect(
      withLocalReceivers(dataDir, { HUB_WEBHOOK_CA_FILE: join(dataDir, 'nothing') }),
    ).rejects.toThrow('HUB_WEBHOOK_CA_FILE cannot be read')
  })

  it('trusts a receiver with a certificate of the developer and one with its own', async () => {
    const developer = await makeCertificateAuthority()
    const file = join(dataDir, 'own.pem')
    writeFileSync(file, developer.pem)
    const ca = trusted(await withLocalReceivers(dataDir, { HUB_WEBHOOK_CA_FILE: file }))
    const own = JSON.parse(readFileSync(receiverTlsFile(dataDir), 'utf8'))
    for (const certificate of [own, await developer.issue(['127.0.0.1'])]) {
      const server = createServer(certificate)
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const socket = connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, ca })
      await once(socket, 'secureConnect')
      expect(socket.authorized).toBe(true)
      socket.destroy()
      await once(server.close(), 'close')
    }
  })
})
