/** Addresses of this machine. A module of its own, so that a program can use it without the settings. */
import { isIP } from 'node:net'

/** Whether only processes of the same machine can read the traffic to a host. */
export const isLoopback = (host: string): boolean => {
  const name = host.replace(/^\[(?<address>.*)\]$/u, '$<address>').toLowerCase()
  // An empty host and a path mean a Unix socket, or the default of the driver: localhost.
  if (name === '' || name.startsWith('/')) return true
  if (isIP(name) === 4) return name.startsWith('127.')
  if (isIP(name) === 6) return /^(?:0*:)*:?0*1$/u.test(name)
  return name === 'localhost' || name.endsWith('.localhost')
}
