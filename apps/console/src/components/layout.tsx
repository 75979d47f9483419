/** The frame of all pages: navigation, search, theme, language and user. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { readAccountNames } from '../api/account-names.ts'
import { may, request, session } from '../api/client.ts'
import { GO_TO, type KeyState, onKey } from '../keyboard/keys.ts'
import { location, navigate } from '../routing/location.ts'
import { LANGUAGE, language, LANGUAGE_NAMES, LANGUAGES } from '../language.ts'
import { writeChoice } from '../storage.ts'
import { strings } from '../strings.ts'
import { shortcutsOn, THEMES, theme } from '../theme.ts'
import { RunBanner } from '../many/banner.tsx'
import { searchFor } from '../screens/search.tsx'
import { Announcement } from './basics.tsx'

/** Pages of the navigation, with the permission that they need. */
const PAGES = [
  // Members have a start page, too.
  { href: '/', name: 'start', permission: 'accounts.read' },
  { href: '/insights', name: 'insights', permission: 'usage.read' },
  { href: '/messages', name: 'messages', permission: 'messages.read' },
  { href: '/moderation/templates', name: 'moderation', permission: 'moderation.read' },
  { href: '/webhooks', name: 'webhooks', permission: 'webhooks.read' },
  { href: '/stuck', name: 'stuck', permission: 'hub.read' },
  { href: '/accounts', name: 'accounts', permission: 'accounts.read' },
  { href: '/usage', name: 'usage', permission: 'usage.read' },
  { href: '/opt-outs', name: 'optOuts', permission: 'opt_outs.read' },
  { href: '/audit', name: 'audit', permission: 'audit.read' },
  { href: '/views', name: 'views', permission: 'views.read' },
] as const

const isCurrent = (href: string, pathname: string): boolean => {
  if (href === '/') return pathname === '/'
  const group = `/${href.split('/')[1]}`
  return pathname === group || pathname.startsWith(`${group}/`)
}

const Navigation = () => (
  <nav aria-label={strings.navigation.title}>
    <ul>
      {PAGES.map(({ href, name, permission }) =>
        may(permission) ? (
          <li key={href}>
            <a href={href} aria-current={isCurrent(href, location.value.pathname) ? 'page' : undefined}>
              {strings.navigation[name]}
            </a>
          </li>
        ) : null,
      )}
    </ul>
  </nav>
)

const SearchBox = () => (
  <form
    role="search"
    aria-label={strings.search.title}
    class="search-box"
    onSubmit={(event) => {
      event.preventDefault()
      const field = event.currentTarget.elements.namedItem('q')
      if (field instanceof HTMLInputElement && field.value.trim() !== '') {
        searchFor(field.value.trim())
        field.value = ''
        field.blur()
      }
    }}
  >
    <label for="search" class="unseen">
      {strings.search.label}
    </label>
    <input
      id="search"
      name="q"
      type="search"
      placeholder={strings.search.placeholder}
      autocomplete="off"
      spellcheck={false}
    />
  </form>
)

const ThemeChoice = () => (
  <label class="choice">
    {strings.theme.label}
    <select
      value={theme.value}
      onChange={(event) => {
        theme.value = THEMES.find((name) => name === event.currentTarget.value) ?? 'system'
      }}
    >
      {THEMES.map((name) => (
        <option key={name} value={name}>
          {strings.theme[name]}
        </option>
      ))}
    </select>
  </label>
)

const LanguageChoice = () => (
  <label class="choice">
    {strings.language}
    <select
      value={language}
      onChange={(event) => {
        const chosen = LANGUAGES.find((name) => name === event.currentTarget.value)
        if (chosen === undefined) return
        writeChoice(LANGUAGE, chosen)
        // All texts are constants of the page.
        window.location.reload()
      }}
    >
      {LANGUAGES.map((name) => (
        <option key={name} value={name} lang={name}>
          {LANGUAGE_NAMES[name]}
        </option>
      ))}
    </select>
  </label>
)

const signOut = async (): Promise<void> => {
  const { end_session_url: endSessionUrl } = await request<{ readonly end_session_url: string | null }>(
    '/logout',
    { method: 'POST', body: {} },
  )
  session.value = { state: 'signed_out' }
  // The session at the identity provider ends there.
  if (endSessionUrl !== null) window.location.assign(endSessionUrl)
}

const User = ({ openHelp }: { readonly openHelp: () => void }) => {
  if (session.value.state !== 'signed_in') return null
  const { name, roles } = session.value.me
  return (
    <div class="user">
      <span class="user-name">
        <strong>{name}</strong>
        <span class="muted">{roles.map((role) => strings.roles[role] ?? role).join(', ')}</span>
      </span>
      <ThemeChoice />
      <LanguageChoice />
      <div class="actions">
        <button type="button" class="quiet" onClick={openHelp}>
          {strings.help.open}
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() => {
            // Without an answer the session may still be valid, so the page stays as it is.
            signOut().catch(() => {})
          }}
        >
          {strings.signOut}
        </button>
      </div>
    </div>
  )
}

const Help = ({ onClose }: { readonly onClose: () => void }) => {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const element = dialog.current
    if (element !== null && !element.open) element.showModal()
    return () => element?.close()
  }, [])
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={onClose}>
      <h2 id="help-title">{strings.help.title}</h2>
      <table>
        <tbody>
          <tr>
            <th scope="row">
              <kbd>/</kbd>
            </th>
            <td>{strings.help.search}</td>
          </tr>
          <tr>
            <th scope="row">
              <kbd>?</kbd>
            </th>
            <td>{strings.help.help}</td>
          </tr>
          {GO_TO.map(([letter, href]) => (
            <tr key={letter}>
              <th scope="row">
                <kbd>g</kbd> <kbd>{letter}</kbd>
              </th>
              <td>{strings.navigation[PAGES.find((page) => page.href === href)?.name ?? 'start']}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label class="check">
        <input
          type="checkbox"
          checked={shortcutsOn.value}
          onChange={(event) => {
            shortcutsOn.value = event.currentTarget.checked
          }}
        />
        {strings.help.on}
      </label>
      <p>{strings.help.times}</p>
      <div class="actions">
        <button type="button" class="primary" onClick={onClose}>
          {strings.close}
        </button>
      </div>
    </dialog>
  )
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))

/** Shortcuts work while no dialog is open. */
const useShortcuts = (openHelp: () => void): void => {
  useEffect(() => {
    let state: KeyState = null
    const listen = (event: KeyboardEvent): void => {
      if (!shortcutsOn.value || document.querySelector('dialog[open]') !== null) return
      const result = onKey(state, {
        key: event.key,
        modified: event.ctrlKey || event.metaKey || event.altKey,
        typing: isTyping(event.target),
        at: performance.now(),
      })
      state = result.state
      if (result.shortcut === null) return
      event.preventDefault()
      if (result.shortcut === 'search') document.getElementById('search')?.focus()
      else if (result.shortcut === 'help') openHelp()
      else navigate(result.shortcut.go)
    }
    window.addEventListener('keydown', listen)
    return () => window.removeEventListener('keydown', listen)
  }, [])
}

/** The navigation is a menu on a small screen, and closes when another page opens. */
const Side = ({ openHelp }: { readonly openHelp: () => void }) => {
  const [open, setOpen] = useState(false)
  useEffect(() => setOpen(false), [location.value.pathname])
  return (
    <header class="side">
      <div class="side-head">
        <a class="product" href="/">
          {strings.product}
        </a>
        <button
          type="button"
          class="menu-button"
          aria-expanded={open}
          aria-controls="menu"
          onClick={() => setOpen(!open)}
        >
          {strings.menu}
        </button>
      </div>
      <div id="menu" class={open ? 'side-body open' : 'side-body'}>
        <Navigation />
        <User openHelp={openHelp} />
      </div>
    </header>
  )
}

export const Layout = ({ children }: { readonly children: ComponentChildren }) => {
  const [help, setHelp] = useState(false)
  // Most pages show them: so they are there before their ids appear.
  useEffect(readAccountNames, [])
  useShortcuts(() => setHelp(true))
  return (
    <>
      <a class="skip" href="#main">
        {strings.skip}
      </a>
      <div class="frame">
        <Side openHelp={() => setHelp(true)} />
        <div class="content">
          <SearchBox />
          <RunBanner />
          <main id="main" tabIndex={-1}>
            {children}
          </main>
          <Announcement />
        </div>
      </div>
      {help ? <Help onClose={() => setHelp(false)} /> : null}
    </>
  )
}
