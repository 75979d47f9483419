/**
 * Makes the certificates of receivers on this machine in a process of its own. The supervisor would keep the memory
 * of the packages that it needs, 70 MiB, as long as the hub runs.
 *
 *   certificates-process.ts <valid days> <host> …     prints {"authority", "key", "cert"}, in PEM
 *
 * The key of the authority is kept nowhere, so nobody can issue further certificates.
 */
import { makeAuthorityFor } from '@hub/testkit'

const [days, ...hosts] = process.argv.slice(2)
const authority = await makeAuthorityFor(Number(days))
console.log(JSON.stringify({ authority: authority.pem, ...(await authority.issue(hosts)) }))
