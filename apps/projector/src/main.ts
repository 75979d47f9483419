/** Starts the projector. */
import { runApp } from '@hub/process'
import { projector } from './app.ts'
import { APP, checks } from './config.ts'
import { layers } from './layers.ts'

runApp({ name: APP, checks, beforeKafka: 'waits', layers, app: projector })
