/** Dialogs: a form in a dialog, with the confirmation of actions that destroy something. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { type Failure, RequestFailed } from '../api/client.ts'
import { strings } from '../strings.ts'
import { Failed } from './basics.tsx'

interface FormDialogProps {
  readonly title: string
  /** What the action does, before the user decides. */
  readonly about: ComponentChildren
  readonly action: string
  /** The name that the user must type before the action. Only for actions that destroy something. */
  readonly confirmName?: string
  readonly children?: ComponentChildren
  /** Performs the action. The dialog closes when it succeeds, and shows the failure otherwise. */
  readonly onSubmit: (fields: FormData) => Promise<void>
  readonly onClose: () => void
}

export const FormDialog = ({
  about,
  action,
  children,
  confirmName,
  onClose,
  onSubmit,
  title,
}: FormDialogProps) => {
  const dialog = useRef<HTMLDialogElement>(null)
  const [typed, setTyped] = useState('')
  const [failure, setFailure] = useState<Failure | null>(null)
  const [busy, setBusy] = useState(false)
  const titleId = useId()
  useEffect(() => {
    const element = dialog.current
    // The browser keeps the focus inside and returns it to the button afterwards.
    if (element !== null && !element.open) element.showModal()
    return () => element?.close()
  }, [])
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    setBusy(true)
    setFailure(null)
    onSubmit(new FormData(event.currentTarget as HTMLFormElement)).then(onClose, (error: unknown) => {
      setBusy(false)
      if (!(error instanceof RequestFailed)) throw error
      // The page of the login replaces this page.
      if (error.failure.kind === 'signed_out') onClose()
      setFailure(error.failure)
    })
  }
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
      <form onSubmit={submit}>
        <h2 id={titleId}>{title}</h2>
        <div class="about">{about}</div>
        {children}
        {confirmName === undefined ? null : (
          <label>
            {strings.confirm.typeName} <strong class="to-type">{confirmName}</strong>
            <input
              name="confirmation"
              autocomplete="off"
              spellcheck={false}
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        {failure === null ? null : <Failed failure={failure} />}
        <div class="actions">
          <button
            type="submit"
            class={confirmName === undefined ? 'primary' : 'danger'}
            disabled={busy || (confirmName !== undefined && typed !== confirmName)}
          >
            {action}
          </button>
          <button type="button" onClick={onClose}>
            {strings.cancel}
          </button>
        </div>
      </form>
    </dialog>
  )
}

interface ReasonFieldProps {
  readonly label: string
  readonly hint: string
  readonly name?: string
  readonly maxLength?: number
}

/** A required text of one line: the reason, the ticket, or the comment for the client. */
export const ReasonField = ({ hint, label, maxLength = 200, name = 'reason' }: ReasonFieldProps) => {
  const hintId = useId()
  return (
    <label>
      {label}
      <input
        name={name}
        required
        minLength={1}
        maxLength={maxLength}
        autocomplete="off"
        aria-describedby={hintId}
      />
      <span class="hint" id={hintId}>
        {hint}
      </span>
    </label>
  )
}

/** A button that opens a dialog. Without other texts, title and action of the dialog are the label. */
export const ActionButton = ({
  label,
  tone,
  action = label,
  title = label,
  ...dialog
}: Omit<FormDialogProps, 'onClose' | 'title' | 'action'> & {
  readonly label: string
  readonly tone?: 'primary' | 'danger'
  readonly title?: string
  readonly action?: string
}) => {
  const [open, setOpen] = useState(false)
  return (
    <>
      <button type="button" class={tone ?? ''} onClick={() => setOpen(true)}>
        {label}
      </button>
      {open ? <FormDialog {...dialog} title={title} action={action} onClose={() => setOpen(false)} /> : null}
    </>
  )
}

/** The text of a field of a form. */
export const textOf = (fields: FormData, name: string): string => {
  const value = fields.get(name)
  return typeof value === 'string' ? value.trim() : ''
}
