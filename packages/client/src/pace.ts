/**
 * How many batches may be in progress: one fewer after the hub refused one, and one more after it accepted a
 * series (additive increase and decrease, because the numbers are small). Pure.
 *
 * A refused batch waits for its `retry_after` while others are sent. So a hub that does two batches at the
 * same time gets two, and is asked for a third one only now and then.
 */

/** The hub decodes one batch while it records the other. More only wait, unless the hub is far away. */
export const USUAL = 2
/**
 * Accepted batches before there is one more, up to `USUAL`. A refusal there comes from a moment in which the
 * hub was slow, and trying again costs one batch a wait, in which others are sent.
 */
export const SERIES = 2
/**
 * The same beyond `USUAL`. Each refusal there doubles it, up to some minutes: a refused batch waits for some
 * seconds, and a hub that did not do three batches at the same time seldom does later.
 */
export const FIRST_LONG_SERIES = 32
export const LONGEST_SERIES = 512

export interface Pace {
  /** The most batches in progress, from 1 to `most`. */
  readonly limit: number
  readonly most: number
  /** Batches that were accepted since the limit changed. */
  readonly accepted: number
  /** Accepted batches before the limit rises beyond `USUAL`. */
  readonly longSeries: number
  /** How often the limit became lower. A batch that began before the last time says nothing about it. */
  readonly reductions: number
}

export const firstPace = (most: number): Pace => ({
  limit: Math.min(USUAL, most),
  most,
  accepted: 0,
  longSeries: FIRST_LONG_SERIES,
  reductions: 0,
})

export const afterAccepted = (pace: Pace): Pace => {
  const accepted = pace.accepted + 1
  const series = pace.limit < USUAL ? SERIES : pace.longSeries
  return pace.limit < pace.most && accepted >= series
    ? { ...pace, limit: pace.limit + 1, accepted: 0 }
    : { ...pace, accepted }
}

/** `reductions`: the number when the refused batch was sent. */
export const afterRefused = (pace: Pace, reductions: number): Pace => {
  if (reductions !== pace.reductions) return { ...pace, accepted: 0 }
  return {
    ...pace,
    limit: Math.max(1, pace.limit - 1),
    accepted: 0,
    longSeries: pace.limit > USUAL ? Math.min(LONGEST_SERIES, 2 * pace.longSeries) : pace.longSeries,
    reductions: pace.reductions + 1,
  }
}
