/** For the generator and the gate of the API description. */
export { descriptionText as operationsDescriptionText } from './description/describe.ts'
