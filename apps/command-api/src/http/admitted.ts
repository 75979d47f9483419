/**
 * Requests that were admitted before their other checks: the ticket and the body of each. The overload
 * gate admits them, and the pipeline goes on with them.
 */
import type { IncomingMessage } from 'node:http'
import type { Ticket } from '../accept/admission/admission-control.ts'

interface Admitted {
  readonly ticket: Ticket
  readonly body: Uint8Array
}

const admitted = new WeakMap<IncomingMessage, Admitted>()

export const setAdmitted = (request: IncomingMessage, one: Admitted): void => void admitted.set(request, one)
/** `null`: the request is not admitted yet. */
export const admittedOf = (request: IncomingMessage): Admitted | null => admitted.get(request) ?? null
