/** The moderation queues of templates and senders, and the decisions about one item. */
import { CHOICES } from '../api/choices.ts'
import { useState } from 'preact/hooks'
import { type Failure, may, request, RequestFailed } from '../api/client.ts'
import { usePages, useResource } from '../api/resource.ts'
import type { ModerationItem, ModerationRow } from '../api/types.ts'
import {
  Age,
  Code,
  Empty,
  Facts,
  Failed,
  Id,
  Json,
  PageTitle,
  ResourceState,
  Status,
  Time,
} from '../components/basics.tsx'
import { ActionButton, ReasonField, textOf } from '../components/dialog.tsx'
import { ACCOUNT_FIELD, currentFilters, FilterBar, type FilterField } from '../components/filters.tsx'
import { type Column, PagedTable } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const KINDS = ['templates', 'senders'] as const
type Kind = (typeof KINDS)[number]

const CHOICES_OF = {
  templates: CHOICES['moderation.list_templates'],
  senders: CHOICES['moderation.list_senders'],
} as const

const fieldsOf = (kind: Kind): ReadonlyArray<FilterField> => [
  ACCOUNT_FIELD,
  { name: 'status', label: strings.columns.status, kind: 'choice', choices: CHOICES_OF[kind].status },
  { name: 'mode', label: strings.columns.mode, kind: 'choice', choices: CHOICES_OF[kind].mode },
]

const columnsOf = (kind: Kind): ReadonlyArray<Column<ModerationRow>> => [
  { title: strings.columns.name, cell: ({ id, name }) => <a href={`/moderation/${kind}/${id}`}>{name}</a> },
  { title: strings.columns.status, cell: ({ status }) => <Status value={status} /> },
  { title: strings.columns.waiting, cell: ({ created_at }) => <Age at={created_at} /> },
  {
    title: kind === 'templates' ? strings.columns.text : strings.columns.registration,
    wide: true,
    cell: (item) =>
      item.object === 'template' ? (
        <span class="message-text">{item.body}</span>
      ) : (
        <span class="message-text">
          {item.registration === null ? '' : JSON.stringify(item.registration)}
        </span>
      ),
  },
  { title: strings.columns.account, cell: ({ account }) => <Id id={account} /> },
]

const Tabs = ({ kind }: { readonly kind: Kind }) => (
  <nav aria-label={strings.moderation.kinds}>
    <ul class="tabs">
      {KINDS.map((name) => (
        <li key={name}>
          <a href={`/moderation/${name}`} aria-current={name === kind ? 'page' : undefined}>
            {strings.moderation[name]}
          </a>
        </li>
      ))}
    </ul>
  </nav>
)

const Queue = ({ kind }: { readonly kind: Kind }) => {
  const fields = fieldsOf(kind)
  const filters = currentFilters(fields)
  const isQueue = Object.keys(filters).every((name) => name === 'account')
  // Without filters, the page shows the work to do: live items that wait.
  const list = isQueue ? `/v1/moderation/queue/${kind}` : `/v1/moderation/${kind}`
  const pages = usePages<ModerationRow>(withFilters(list, { ...filters, limit: '100' }))
  return (
    <>
      <PageTitle text={strings.moderation.title} />
      <Tabs kind={kind} />
      <FilterBar fields={fields} view={kind} />
      {isQueue ? <p class="muted">{strings.moderation.queueNote}</p> : null}
      <PagedTable
        label={strings.moderation[kind]}
        pages={pages}
        columns={columnsOf(kind)}
        rowKey={({ id }) => id}
        empty={isQueue ? strings.moderation.emptyQueue : strings.moderation.emptyFilter}
      />
    </>
  )
}

export const Moderation = ({ kind }: { readonly kind: string }) => {
  const known = KINDS.find((name) => name === kind)
  return known === undefined ? <Empty>{strings.notFound.text}</Empty> : <Queue kind={known} />
}

/** Approves or declines an item, and shows the item as it is then. */
const Decisions = ({
  item,
  kind,
  reload,
}: {
  readonly item: ModerationItem
  readonly kind: Kind
  readonly reload: () => void
}) => {
  const path = `/v1/moderation/${kind}/${item.id}`
  const [refusal, setRefusal] = useState<Failure | null>(null)
  const decide = async (decision: 'approve' | 'decline', body: unknown): Promise<void> => {
    setRefusal(null)
    try {
      await request(`${path}/${decision}`, { method: 'POST', body })
    } catch (error) {
      const isDecided =
        error instanceof RequestFailed && error.failure.kind === 'refused' && error.failure.status === 409
      if (!isDecided) throw error
      // Somebody else has decided: the page shows it, and who it was.
      setRefusal(error.failure)
    }
    reload()
  }
  const isApproved = item.status === 'approved' || item.status === 'registered'
  return (
    <>
      {refusal === null ? null : <Failed failure={refusal} />}
      <div class="actions">
        {isApproved ? null : (
          <ActionButton
            label={strings.moderation.approve}
            tone="primary"
            title={strings.moderation.approveTitle(item.name)}
            about={strings.moderation.approveAbout[kind]}
            onSubmit={() => decide('approve', {})}
          />
        )}
        {item.status === 'declined' ? null : (
          <ActionButton
            label={strings.moderation.decline}
            title={strings.moderation.declineTitle(item.name)}
            about={strings.moderation.declineAbout[kind]}
            // An approved item is in use: the decision stops it.
            {...(isApproved ? { confirmName: item.name } : {})}
            onSubmit={(fields) => decide('decline', { reason: textOf(fields, 'reason') })}
          >
            <ReasonField label={strings.moderation.comment} hint={strings.moderation.commentHint} />
          </ActionButton>
        )}
      </div>
    </>
  )
}

const Preview = ({ item }: { readonly item: ModerationItem }) =>
  item.object === 'template' ? (
    <section aria-labelledby="text">
      <h2 id="text">{strings.moderation.text}</h2>
      <p class="sms">{item.body}</p>
      {item.preview === null ? (
        <Empty>{strings.moderation.noPreview}</Empty>
      ) : (
        <>
          <h3>{strings.moderation.preview}</h3>
          <p class="sms">{item.preview.text}</p>
          <p class="muted">
            {strings.moderation.parts(item.preview.parts, item.preview.characters, item.preview.encoding)}
          </p>
        </>
      )}
    </section>
  ) : (
    <section aria-labelledby="registration">
      <h2 id="registration">{strings.moderation.registration}</h2>
      {item.registration === null ? (
        <Empty>{strings.moderation.noRegistration}</Empty>
      ) : (
        <Json label={strings.moderation.registration} value={item.registration} />
      )}
    </section>
  )

const Item = ({ id, kind }: { readonly id: string; readonly kind: Kind }) => {
  const { data, failure, reload } = useResource<ModerationItem>(
    `/v1/moderation/${kind}/${encodeURIComponent(id)}`,
  )
  return (
    <>
      <p>
        <a href={`/moderation/${kind}`}>{strings.moderation.back}</a>
      </p>
      <PageTitle text={data === null ? id : data.name} />
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <Facts
            rows={[
              [strings.columns.status, <Status value={data.status} />],
              data.decision === null
                ? null
                : [
                    strings.moderation.decided,
                    <>
                      {data.decision.by}, <Time at={data.decision.at} />
                    </>,
                  ],
              data.reason === null ? null : [strings.moderation.comment, data.reason],
              [strings.columns.account, <Id id={data.account} />],
              [strings.columns.mode, wordsOf(data.mode)],
              data.object === 'template' ? [strings.columns.class, wordsOf(data.class)] : null,
              data.object === 'template'
                ? [
                    strings.columns.sender,
                    <>
                      {data.sender} <Status value={data.sender_status} />
                    </>,
                  ]
                : null,
              data.object === 'template' && data.language !== null
                ? [strings.moderation.language, data.language]
                : null,
              [strings.columns.created, <Time at={data.created_at} />],
              [strings.columns.id, <Code text={data.id} />],
            ]}
          />
          <Preview item={data} />
          {may('moderation.decide') ? (
            <Decisions item={data} kind={kind} reload={reload} />
          ) : (
            <p class="muted">{strings.moderation.notPermitted}</p>
          )}
        </>
      )}
    </>
  )
}

export const ModerationPage = ({ id, kind }: { readonly id: string; readonly kind: string }) => {
  const known = KINDS.find((name) => name === kind)
  return known === undefined ? <Empty>{strings.notFound.text}</Empty> : <Item kind={known} id={id} />
}
