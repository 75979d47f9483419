/** Named places in the code at which a test makes a process crash. They do nothing in production. */
export { crashPoint, crashPointOfValue, crashPointsByType, crashPointThatThrows } from './crash-point.ts'
export { CRASH_FAULTS, CRASH_POINTS, type CrashFault, type CrashPoint } from './points.ts'
