/** The HTTP listener of command-api and operations-api: its limits, timeouts, and its end. */
export { type ConnectionLimits } from './connections.ts'
export { FRAMING_MESSAGES, type FramingFault, framingFault, valuesOf } from './framing.ts'
export { type Gate, LISTENER_OPTIONS, type Listener, makeListener, type RawAnswer } from './listener.ts'
export { addServingCheck, gracefulShutdown, serve, Serving } from './serving.ts'
