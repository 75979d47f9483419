/**
 * The signing secrets of a subscription and their rotation. Source: SUB-16 to SUB-19.
 */
import { Result } from 'effect'

/** A replaced secret signs for this time, ms. A setting can change it. */
export const SECRET_ROTATION_MS = 24 * 3_600_000

/** The secrets that may sign at once: each adds a `v1` to every request. */
export const MOST_SIGNING_SECRETS = 3

/** A secret that was replaced, in any representation. */
export interface EarlierSecret<S> {
  readonly secret: S
  /** It signs until then, milliseconds since the epoch. */
  readonly signsUntil: number
}

export interface SigningSecrets<S> {
  readonly current: S
  /** Those that were replaced, the newest one first. Ended ones may be among them. */
  readonly earlier: ReadonlyArray<EarlierSecret<S>>
}

/** The earlier secrets that still sign at `now`. */
export const signingEarlierSecrets = <S>(
  earlier: ReadonlyArray<EarlierSecret<S>>,
  now: number,
): ReadonlyArray<EarlierSecret<S>> => earlier.filter(({ signsUntil }) => signsUntil > now)

/** The secrets that sign at `now`, the current one first. */
export const signingSecrets = <S>(
  { current, earlier }: SigningSecrets<S>,
  now: number,
): readonly [S, ...ReadonlyArray<S>] => [
  current,
  ...signingEarlierSecrets(earlier, now).map(({ secret }) => secret),
]

/** A rotation would need one secret more than may sign. It is possible from `possibleAt` on. */
export interface RotationInProgress {
  readonly _tag: 'RotationInProgress'
  /** Milliseconds since the epoch. */
  readonly possibleAt: number
}

interface Rotation<S> {
  readonly next: S
  /** Milliseconds since the epoch. */
  readonly at: number
  /** The replaced secret signs for this time, ms. */
  readonly transitionMs: number
  /** Ends all earlier secrets at once, also the replaced one. */
  readonly expirePrevious: boolean
}

/**
 * Replaces the current secret. Each replaced secret has its own transition, which later rotations
 * do not change. Fails while the most secrets sign, unless the rotation ends the earlier ones.
 */
export const rotateSecrets = <S>(
  { current, earlier }: SigningSecrets<S>,
  { at, expirePrevious, next, transitionMs }: Rotation<S>,
): Result.Result<SigningSecrets<S>, RotationInProgress> => {
  if (expirePrevious) return Result.succeed({ current: next, earlier: [] })
  const signing = signingEarlierSecrets(earlier, at)
  // The new one and the replaced one sign too.
  if (signing.length + 2 > MOST_SIGNING_SECRETS) {
    const possibleAt = Math.min(...signing.map(({ signsUntil }) => signsUntil))
    return Result.fail({ _tag: 'RotationInProgress', possibleAt })
  }
  return Result.succeed({
    current: next,
    earlier: [{ secret: current, signsUntil: at + transitionMs }, ...signing],
  })
}
