/** The time until the operator simulator receives a code, for the codes of some runs of `open-loop.ts`. */
import { decodeFact } from '@hub/kafka'
import { Result } from 'effect'
import type { HubDescription } from '@hub/local-stack'
import { readTopic } from '../../test/support/read-topic.ts'
import { type Latencies, latenciesOf } from './numbers.ts'
import { codeOf, isCode, recipientOf, referenceOf } from '../loads/open-loop.ts'

export interface SubmitTimes {
  /** From the append of a code to Kafka, by the producer's clock. */
  readonly fromAppend: Latencies
  /** From its acceptance time, which is before its commit. */
  readonly fromAcceptance: Latencies
}

/** Returns the times of each run. All of their messages must be in the event journal. */
export const submitTimes = async (
  { kafka, operator_url }: HubDescription,
  runs: ReadonlyArray<string>,
  { codesOfTen, sends }: { readonly codesOfTen: number; readonly sends: number },
): Promise<ReadonlyArray<SubmitTimes>> => {
  if (runs.length === 0) return []
  const behaviour = await fetch(`${operator_url}/behaviour`)
  const { report_delay_ms } = (await behaviour.json()) as { readonly report_delay_ms: number }
  const acceptances = new Map(
    (await readTopic(kafka.brokers, 'hub.accepted.otp.v1')).flatMap((record) => {
      const fact = decodeFact(record)
      return Result.isSuccess(fact) && fact.success.type === 'MessageAccepted'
        ? [[fact.success.clientRef, { at: fact.success.at, appendedAt: record.appendedAt }] as const]
        : []
    }),
  )
  /** When the simulator received a code. It plans the report at that moment, this delay later. */
  const receivedAt = async (run: string, index: number): Promise<number> => {
    const message = new URLSearchParams({ to: recipientOf(run, 0, index), text: `Code ${codeOf(index)}` })
    const answer = await fetch(`${operator_url}/submissions?${message.toString()}`)
    if (!answer.ok) throw new Error(`The operator simulator answered a look-up with status ${answer.status}.`)
    const { reports } = (await answer.json()) as { readonly reports: ReadonlyArray<{ readonly at: string }> }
    return Date.parse(reports[0]?.at ?? '') - report_delay_ms
  }
  const times: Array<SubmitTimes> = []
  for (const run of runs) {
    const fromAppend: Array<number> = []
    const fromAcceptance: Array<number> = []
    for (let index = 0; index < sends; index++) {
      const acceptance = acceptances.get(referenceOf(run, 0, index))
      if (!isCode(index, codesOfTen) || acceptance === undefined) continue
      const at = await receivedAt(run, index)
      fromAppend.push(at - acceptance.appendedAt)
      fromAcceptance.push(at - acceptance.at)
    }
    times.push({ fromAppend: latenciesOf(fromAppend), fromAcceptance: latenciesOf(fromAcceptance) })
  }
  return times
}
