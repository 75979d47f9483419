/** Addresses to which a command line sends a key or a token. */
import { isLoopback } from '@hub/config/loopback'

/** Whether no other machine can read what is sent: over https, or within this machine. */
export const isPrivateAddress = ({ hostname, protocol }: URL): boolean =>
  protocol === 'https:' || isLoopback(hostname)

/** A URL, or `null` for a text that is none. Node 20, which `hub` supports, has no `URL.parse`. */
export const urlOf = (address: string): URL | null => (URL.canParse(address) ? new URL(address) : null)

/** Whether the address of a web server is that of this machine. */
export const isLoopbackAddress = (address: string): boolean => {
  const url = urlOf(address)
  return url !== null && url.hostname !== '' && isLoopback(url.hostname)
}
