/** The parts of the fan-out that the simulation runs. */
export { makeFanout } from './app.ts'
export { FANOUT_DEFAULTS, FanoutSettings, type Settings } from './config.ts'
export { FanoutStore, type FanoutStoreShape, type Ownership } from './store/store.port.ts'
