/** HKDF derives one key for each purpose from a secret of 32 bytes. */
import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import type { EncryptionPurpose } from './key-provider.port.ts'

export class DerivedKeys {
  readonly #secret: Uint8Array
  readonly #keys = new Map<EncryptionPurpose, KeyObject>()

  constructor(secret: Uint8Array) {
    this.#secret = secret
  }

  keyOf(purpose: EncryptionPurpose): KeyObject {
    let key = this.#keys.get(purpose)
    if (key === undefined) {
      key = createSecretKey(this.derive(purpose))
      this.#keys.set(purpose, key)
    }
    return key
  }

  /** Proves that two processes have the same secret. It is a derived key, which nothing else uses. */
  get checkValue(): string {
    return Buffer.from(this.derive('check-value')).toString('hex')
  }

  /** 32 bytes, which reveal nothing about the secret. */
  derive(label: string): Uint8Array {
    return new Uint8Array(hkdfSync('sha256', this.#secret, Buffer.alloc(0), `sms-delivery-hub/${label}`, 32))
  }
}
