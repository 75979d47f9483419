/** The daily limit of the hub, and the stop of all sends. */
import { may, request } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { HubState } from '../api/types.ts'
import { Facts, ResourceState, Status, Time } from '../components/basics.tsx'
import { ActionButton, textOf } from '../components/dialog.tsx'
import { countText } from '../format/number.ts'
import { strings } from '../strings.ts'

const MINUTE_SECONDS = 60

export const HubStop = () => {
  const { data, failure, reload } = useResource<HubState>('/v1/hub')
  const change = async (action: 'stop' | 'resume', body: Readonly<Record<string, unknown>>) => {
    await request(`/v1/hub/${action}`, { method: 'POST', body })
    reload()
  }
  return (
    <section aria-labelledby="hub">
      <h2 id="hub">{strings.hub.title}</h2>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <Facts
            rows={[
              [
                strings.columns.status,
                data.stopped ? (
                  <>
                    <Status value="stopped" /> {strings.start.until} <Time at={data.stopped_until} exact />
                  </>
                ) : (
                  strings.hub.accepts
                ),
              ],
              [strings.hub.limit, data.daily_limit === null ? strings.none : countText(data.daily_limit)],
              [
                strings.hub.today,
                data.accepted_today === null
                  ? strings.hub.unknown
                  : data.above_limit > 0
                    ? strings.hub.aboveLimit(countText(data.accepted_today), countText(data.above_limit))
                    : countText(data.accepted_today),
              ],
            ]}
          />
          {may('hub.change') ? (
            <div class="actions">
              {data.stopped ? (
                <ActionButton
                  label={strings.hub.resume}
                  about={strings.hub.resumeAbout}
                  onSubmit={() => change('resume', {})}
                />
              ) : (
                <ActionButton
                  label={strings.hub.stop}
                  tone="danger"
                  about={strings.hub.stopAbout}
                  confirmName={strings.hub.name}
                  onSubmit={(fields) =>
                    change('stop', { seconds: Number(textOf(fields, 'minutes')) * MINUTE_SECONDS })
                  }
                >
                  <label>
                    {strings.hub.minutes}
                    <input
                      name="minutes"
                      required
                      autocomplete="off"
                      inputMode="numeric"
                      pattern="[1-9]\d{0,4}"
                      defaultValue="30"
                    />
                  </label>
                </ActionButton>
              )}
            </div>
          ) : null}
        </>
      )}
    </section>
  )
}
