/** The button of an action on all items of a list that pass its filters. It counts them first. */
import { useEffect, useState } from 'preact/hooks'
import { type Failure, request, RequestFailed } from '../api/client.ts'
import { Failed } from '../components/basics.tsx'
import { FormDialog } from '../components/dialog.tsx'
import { countText } from '../format/number.ts'
import { strings } from '../strings.ts'
import { collect, type Collected } from './collect.ts'
import { currentRun, onRunEnd, startRun } from './current.ts'
import type { Kind } from './run.ts'

interface ActOnManyProps<Row> {
  readonly kind: Kind
  /** The subscription of the batches. */
  readonly of?: string
  /** The list of the API with the filters in force. */
  readonly path: string
  /** The id of the item of a row; `null`: the action does not take it. */
  readonly idOf: (row: Row) => string | null
  /** Shows what has changed. */
  readonly reload: () => void
}

const ELSEWHERE: Failure = {
  kind: 'refused',
  status: 409,
  code: 'run_elsewhere',
  message: strings.many.elsewhere,
  param: null,
  roles: [],
  requestId: null,
}

export const ActOnMany = <Row,>({ idOf, kind, of, path, reload }: ActOnManyProps<Row>) => {
  const [counting, setCounting] = useState(false)
  const [counted, setCounted] = useState<Collected | null>(null)
  const [failure, setFailure] = useState<Failure | null>(null)
  useEffect(() => onRunEnd(reload), [path])
  const run = currentRun.value
  const count = (): void => {
    setCounting(true)
    setFailure(null)
    collect<Row>(path, idOf, request)
      .then(setCounted, (error: unknown) => {
        if (!(error instanceof RequestFailed)) throw error
        setFailure(error.failure)
      })
      .finally(() => setCounting(false))
  }
  const close = (): void => setCounted(null)
  return (
    <>
      {failure === null ? null : <Failed failure={failure} retry={count} />}
      {counted !== null && counted.ids.length === 0 ? (
        <span role="status">{strings.many.nothing}</span>
      ) : null}
      <button
        type="button"
        // One run at a time: its progress has one place.
        disabled={counting || (run !== null && run.phase !== 'ended')}
        onClick={count}
      >
        {counting ? strings.many.counting : strings.many.all[kind]}
      </button>
      {counted === null || counted.ids.length === 0 ? null : (
        <FormDialog
          title={strings.many.counted[kind](counted.ids.length)}
          about={
            <>
              <p>{strings.many.about[kind]}</p>
              {counted.isCut ? <p>{strings.many.cut(countText(counted.ids.length))}</p> : null}
              <p>{strings.many.keepOpen}</p>
            </>
          }
          action={strings.many.begin[kind]}
          confirmName={String(counted.ids.length)}
          onSubmit={async () => {
            if (!(await startRun(kind, of ?? null, counted.ids))) throw new RequestFailed(ELSEWHERE)
          }}
          onClose={close}
        />
      )}
    </>
  )
}
