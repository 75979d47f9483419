/** The contract suite of the master key, for tests with a server that only the tests of the repository can start. */
export { keyProviderContract, patientKeys } from '../key-providers/key-provider.contract.ts'
