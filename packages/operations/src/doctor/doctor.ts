/** Checks all dependencies of the hub. */
import { Effect, Schema } from 'effect'
import { defineUseCase } from '../use-case.ts'
import { type Check, runChecks } from './check.ts'
import { environmentChecks } from './environment.ts'
import { pipelineChecks } from './pipeline.ts'
import { secretChecks } from './secrets.ts'
import { serverChecks } from './servers.ts'

export const Finding = Schema.Struct({
  subject: Schema.String,
  /** `ill`: a problem. `unknown`: not checked, because of another problem. */
  verdict: Schema.Literals(['well', 'note', 'ill', 'unknown']),
  said: Schema.String,
  /** How to repair a problem. */
  mend: Schema.NullOr(Schema.String),
  facts: Schema.Record(
    Schema.String,
    Schema.Union([Schema.String, Schema.Number, Schema.Boolean, Schema.Null, Schema.Array(Schema.String)]),
  ),
})

const DoctorReport = Schema.Struct({
  object: Schema.Literal('doctor'),
  healthy: Schema.Boolean,
  findings: Schema.Array(Finding),
})

const report = (checks: ReadonlyArray<Check>) =>
  Effect.map(runChecks(checks), (findings) => ({
    object: 'doctor' as const,
    healthy: findings.every(({ verdict }) => verdict !== 'ill'),
    findings,
  }))

export const check = defineUseCase({
  name: 'doctor',
  permission: 'hub.read',
  input: Schema.Struct({
    /** The names of the environment variables of hubctl; `null`: its settings are not checked. */
    variables: Schema.NullOr(Schema.Array(Schema.String)),
  }),
  output: DoctorReport,
  audit: null,
  run: ({ variables }) =>
    report([...environmentChecks(variables), ...serverChecks, ...secretChecks, ...pipelineChecks]),
})

/**
 * The checks without those of the own environment: a process of the hub has other settings and another
 * network than hubctl.
 */
export const checkHub = defineUseCase({
  name: 'doctor hub',
  permission: 'hub.read',
  input: Schema.Struct({}),
  output: DoctorReport,
  audit: null,
  run: () => report([...serverChecks, ...secretChecks, ...pipelineChecks]),
})
