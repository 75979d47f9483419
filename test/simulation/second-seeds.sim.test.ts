import { describe } from '@effect/vitest'
import { checkSeeds } from './check-seeds.ts'

describe('the simulated hub', () => checkSeeds(501, 1000))
