import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { makeCertificateAuthority } from '@hub/testkit'
import { Effect } from 'effect'
import { readKeyPair } from './key-pair.ts'

describe('a key pair', () => {
  it.effect('is validated before its use', () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(join(tmpdir(), 'tls-'))
      const files = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') }
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      const authority = yield* Effect.promise(makeCertificateAuthority)
      const [one, other] = yield* Effect.promise(() =>
        Promise.all([authority.issue(['127.0.0.1']), authority.issue(['127.0.0.1'])]),
      )
      const read = Effect.suspend(() => Effect.fromResult(readKeyPair(files)))
      const written = (cert: string, key: string) => {
        writeFileSync(files.certFile, cert)
        writeFileSync(files.keyFile, key)
        return read
      }
      assert.strictEqual((yield* Effect.flip(read)).detail, 'ENOENT')
      assert.deepStrictEqual(yield* written(one.cert, one.key), one)
      for (const [cert, key] of [
        [one.cert, other.key],
        ['', one.key],
        [one.cert, 'not a key'],
        ['not a certificate', one.key],
      ] as const) {
        const { message } = yield* Effect.flip(written(cert, key))
        assert.include(message, 'cannot be used')
        assert.notInclude(message, 'not a')
      }
    }),
  )
})
