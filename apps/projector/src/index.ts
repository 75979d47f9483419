/** The projector, for whoever runs or tests it. What lies behind it is its own. */
export {
  GROUP,
  makeProjector,
  POLL_SIZE,
  type Projector,
  type ProjectorOptions,
} from './projection/projector.ts'
