/** Addresses to which a command line sends a key or a token. */
import { isLoopback } from '@hub/config/loopback'

/** Whether no other machine can read what is sent: over https, or within this machine. */
export const isPrivateAddress = ({ hostname, protocol }: URL): boolean =>
  protocol === 'https:' || isLoopback(hostname)
