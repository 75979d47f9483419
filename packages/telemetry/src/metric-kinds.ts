/** The kinds of metrics that need only a name and a description. */
import { Context, Metric } from 'effect'
import { memoizeLabels } from './metric-labels.ts'

/** A counter that only rises. `add` is a plain function call. `count`: default 1. */
export interface Counter {
  readonly add: (count?: number) => void
}

/** A counter with labels. `labels` is one of its label sets. */
export interface LabelledCounter<Labels> {
  readonly add: (labels: Labels, count?: number) => void
}

/** One label value by label name. */
type LabelSet = Readonly<Record<string, string>>

/** Every label set that has one of the given values for each label. */
export const labelSets = <const Values extends Readonly<Record<string, ReadonlyArray<string>>>>(
  values: Values,
): ReadonlyArray<{ readonly [Label in keyof Values]: Values[Label][number] }> =>
  Object.entries(values).reduce<ReadonlyArray<LabelSet>>(
    (sets, [label, ofLabel]) => sets.flatMap((set) => ofLabel.map((value) => ({ ...set, [label]: value }))),
    [{}],
  ) as ReadonlyArray<{ readonly [Label in keyof Values]: Values[Label][number] }>

/** Every update of a process has the same registry. */
const context = Context.empty()

/**
 * Declares a counter, and records 0 for each of its label sets (all that it can have, without
 * `sets` the counter has no labels). Without a sample of 0, a query for the increase of a counter
 * misses its first event.
 */
export function counter(name: string, description: string): Counter
export function counter<Labels extends LabelSet>(
  name: string,
  description: string,
  sets: ReadonlyArray<Labels>,
): LabelledCounter<Labels>
export function counter(
  name: string,
  description: string,
  sets?: ReadonlyArray<LabelSet>,
): Counter | LabelledCounter<LabelSet> {
  const metric = Metric.counter(name, { description, incremental: true })
  if (sets === undefined) {
    const add = (count = 1) => metric.updateUnsafe(count, context)
    add(0)
    return { add }
  }
  const labelled = memoizeLabels()
  const add = (labels: LabelSet, count = 1) => labelled(metric, labels).updateUnsafe(count, context)
  for (const labels of sets) add(labels, 0)
  return { add }
}

/**
 * A counter that also counts under its old name, for a version, so that dashboards and alerts of others
 * can follow.
 */
export const withOldName = <Arguments extends ReadonlyArray<unknown>>(
  counter: { readonly add: (...values: Arguments) => void },
  old: { readonly add: (...values: Arguments) => void },
) => ({
  add: (...values: Arguments): void => {
    counter.add(...values)
    old.add(...values)
  },
})

export const gauge = (name: string, description: string) => Metric.gauge(name, { description })
