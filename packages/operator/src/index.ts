/** Operators: the port, and the adapters behind it. */
export {
  type Capabilities,
  type InboundMessage,
  type OpenSubmission,
  type Operator,
  type OperatorReport,
  ReportSink,
  ReportsNotStored,
  type Submission,
  type SubmitOutcome,
} from './port.ts'
export { makeSandbox, SANDBOX, SANDBOX_DEFAULTS, type SandboxOptions } from './sandbox/sandbox.ts'
export { type CallbackRefusal, readCallback, readInbound } from './http/callback.ts'
export { HTTP, HTTP_DEFAULTS, type HttpOperatorOptions, makeHttpOperator } from './http/http.ts'
export { parseSmppErrors, type SmppErrors, SmppErrorsInvalid } from './smpp/errors.ts'
export type { IdFormat } from './smpp/ids.ts'
export { type BindMode, SMPP, SMPP_DEFAULTS, type SmppSettings } from './smpp/settings.ts'
export { makeSmppOperator, type SmppOperator } from './smpp/smpp.ts'
