/** Addresses to which a command line sends a key or a token. */
import { isLoopback } from '@hub/config/loopback'

/** Whether no other machine can read what is sent: over https, or within this machine. */
export const isPrivateAddress = ({ hostname, protocol }: URL): boolean =>
  protocol === 'https:' || isLoopback(hostname)

/** Whether the address of a web server is that of this machine. */
export const isLoopbackAddress = (address: string): boolean => {
  const url = URL.parse(address)
  return url !== null && url.hostname !== '' && isLoopback(url.hostname)
}
