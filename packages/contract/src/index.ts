export * from './api.ts'
export { description, descriptionText } from './describe.ts'
export * from './errors.ts'
export * from './limits.ts'
export * from './wire.ts'
export * from './validate.ts'
export {
  ERROR_PAGE_PATH,
  errorPage,
  type HtmlPage,
  REFERENCE_PATH,
  referencePage,
  renderErrorPage,
} from './reference.ts'
