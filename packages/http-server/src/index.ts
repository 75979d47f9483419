/** The HTTP listener of command-api and operations-api: its limits, timeouts, TLS, and its end. */
export { type BodyRules, type DeclaredBody, declaredBody, readBody } from './body.ts'
export { FRAMING_MESSAGES, type FramingFault, framingFault, valuesOf } from './framing.ts'
export { listenerLayer, type ListenerOptions, type RawAnswer } from './listener.ts'
export { allowOf, exactPaths, splitUrl } from './paths.ts'
export { addServingCheck, gracefulShutdown, serve, Serving } from './serving.ts'
