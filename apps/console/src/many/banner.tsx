/** The progress of the run of this browser, on every page. */
import { useEffect } from 'preact/hooks'
import { may } from '../api/client.ts'
import { Id } from '../components/basics.tsx'
import { countText } from '../format/number.ts'
import { strings } from '../strings.ts'
import { failedAgain } from './run.ts'
import { closeRun, continueRun, currentRun, findRun, personName, stopRun } from './current.ts'

/** More failures are in the audit trail. */
const SHOWN = 50

const Items = ({
  items,
  title,
}: {
  readonly title: string
  readonly items: ReadonlyArray<{ readonly id: string; readonly message: string }>
}) =>
  items.length === 0 ? null : (
    <details>
      <summary>{title}</summary>
      <ul>
        {items.slice(0, SHOWN).map(({ id, message }) => (
          <li key={id}>
            <Id id={id} /> {message}
          </li>
        ))}
      </ul>
    </details>
  )

export const RunBanner = () => {
  useEffect(findRun, [])
  const run = currentRun.value
  if (run === null || run.by !== personName()) return null
  const { begun, done, failures, kind, phase, total, unknown, waiting } = run
  const isBusy = phase === 'running' || begun.length > 0
  return (
    <section class="run" aria-label={strings.many.title[kind]}>
      <strong>{strings.many.title[kind]}</strong>
      <progress
        aria-label={strings.many.title[kind]}
        max={total}
        value={total - waiting.length - begun.length}
      />
      <p>{strings.many.progress(countText(done), countText(total))}</p>
      <p role="status">{strings.many.phases[phase]}</p>
      <Items items={failures} title={strings.many.failed(failures.length)} />
      <Items
        items={unknown.map((id) => ({ id, message: '' }))}
        title={strings.many.unknown(unknown.length)}
      />
      <div class="actions">
        {phase === 'running' ? (
          <button type="button" class="danger" onClick={stopRun}>
            {strings.many.stop}
          </button>
        ) : null}
        {!isBusy && waiting.length > 0 ? (
          <button type="button" class="primary" onClick={() => void continueRun()}>
            {strings.many.goOn(waiting.length)}
          </button>
        ) : null}
        {!isBusy && failures.length > 0 ? (
          <button type="button" onClick={() => void continueRun(failedAgain)}>
            {strings.many.again(failures.length)}
          </button>
        ) : null}
        {isBusy ? null : (
          <button type="button" onClick={closeRun}>
            {strings.many.close}
          </button>
        )}
        {may('audit.read') ? <a href="/audit">{strings.many.trail}</a> : null}
      </div>
    </section>
  )
}
