export * from './errors.ts'
export * from './limits.ts'
export * from './wire.ts'
export * from './validate.ts'
