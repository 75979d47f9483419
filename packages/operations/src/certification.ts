/** Certification: the checklist that an account fulfils before it gets live keys. */
import { certificationChecklist, type Confirmation, CONFIRMATION_NAMES } from '@hub/domain'
import { AccountActivity, uuidOf } from '@hub/store'
import { Effect, Schema } from 'effect'
import { requireAccount } from './accounts.ts'
import { refused } from './failures.ts'
import { publicId, Timestamp } from './fields.ts'
import { query } from './sql.ts'
import * as Certifications from './tables/certifications.ts'
import { defineUseCase } from './use-case.ts'

const Point = Schema.Struct({
  name: Schema.String,
  wanted: Schema.String,
  fulfilled: Schema.Boolean,
  /** `seen`: the hub observes it. `confirmed`: a person confirms it. */
  by: Schema.Literals(['seen', 'confirmed']),
})

const commonFields = {
  account: publicId('acc'),
  object: Schema.Literal('certification'),
  certified: Schema.Boolean,
}

const readCertification = Effect.fnUntraced(function* (account: string) {
  const uuid = uuidOf('acc', account)
  const found = yield* query((q) => Certifications.read(q, [uuid]))
  return found.get(uuid) ?? null
})

/** Whether an account may have live keys. */
export const isCertified = (account: string) =>
  Effect.map(readCertification(account), (found) => found !== null)

const checklistOf = Effect.fnUntraced(function* (account: string, confirmed: ReadonlyArray<Confirmation>) {
  const activity = yield* query((q) => AccountActivity.read(q, uuidOf('acc', account)))
  if (activity === null)
    return yield* refused('account_not_found', `There is no account ${account}.`, 'account')
  return certificationChecklist(activity, new Set(confirmed))
})

export const check = defineUseCase({
  name: 'certification check',
  permission: 'accounts.read',
  members: 'named',
  input: Schema.Struct({ account: publicId('acc') }),
  output: Schema.Struct({
    ...commonFields,
    granted_at: Schema.NullOr(Timestamp),
    granted_by: Schema.NullOr(Schema.String),
    points: Schema.Array(Point),
  }),
  audit: null,
  run: Effect.fnUntraced(function* ({ account }) {
    const certification = yield* readCertification(account)
    return {
      account,
      object: 'certification' as const,
      certified: certification !== null,
      granted_at: certification?.granted_at.toISOString() ?? null,
      granted_by: certification?.granted_by ?? null,
      points: yield* checklistOf(account, certification?.confirmed ?? []),
    }
  }),
})

/** Certifies an account. The actor confirms what the hub cannot observe. */
export const grant = defineUseCase({
  name: 'certification grant',
  permission: 'accounts.change',
  input: Schema.Struct({
    account: publicId('acc'),
    confirmed: Schema.Array(Schema.Literals(CONFIRMATION_NAMES)),
  }),
  output: Schema.Struct({ ...commonFields, points: Schema.Array(Point) }),
  audit: ({ account, confirmed }) => ({ account, confirmed }),
  run: Effect.fnUntraced(function* ({ account, confirmed }, actor) {
    const points = yield* checklistOf(account, confirmed)
    const open = points.filter((point) => !point.fulfilled).map(({ name }) => name)
    if (open.length > 0) {
      return yield* refused('checklist_incomplete', `These points are open: ${open.join(', ')}.`, 'confirmed')
    }
    yield* query((q) => Certifications.upsert(q, uuidOf('acc', account), actor.name, confirmed))
    return { account, object: 'certification' as const, certified: true, points }
  }),
})

/** Withdraws a certification. Existing live keys continue to work. */
export const withdraw = defineUseCase({
  name: 'certification withdraw',
  permission: 'accounts.change',
  input: Schema.Struct({ account: publicId('acc') }),
  output: Schema.Struct(commonFields),
  audit: ({ account }) => ({ account }),
  run: Effect.fnUntraced(function* ({ account }) {
    yield* requireAccount(account)
    if (!(yield* isCertified(account))) {
      return yield* refused('not_certified', `${account} is not certified.`, 'account')
    }
    yield* query((q) => Certifications.remove(q, uuidOf('acc', account)))
    return { account, object: 'certification' as const, certified: false }
  }),
})
