import { describe } from '@effect/vitest'
import { checkSeeds } from './check-seeds.ts'

describe('the simulated hub', () => checkSeeds(1, 500))
