/** The contract suites of the counters and of the shared texts, for adapters with servers of their own. */
export { makeSuiteClock, portContract, TestCounters } from '../port.contract.ts'
export { redisProxy } from '../redis-proxy.testing.ts'
export { sharedTextsContract, TestSharedTexts } from '../shared/port.contract.ts'
