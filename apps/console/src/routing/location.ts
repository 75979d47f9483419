/** The address of the page, as a signal. Links of the console change it without a reload. */
import { computed, signal } from '@preact/signals'
import { matchRoute, returnAddress } from './routes.ts'

const current = () => ({ pathname: window.location.pathname, search: window.location.search })

export const location = signal(current())
export const route = computed(() => matchRoute(location.value.pathname))

/** Opens an address of the console. `replace` leaves no entry in the history, for changes of filters. */
export const navigate = (href: string, options: { readonly replace?: boolean } = {}): void => {
  if (options.replace === true) window.history.replaceState(null, '', href)
  else window.history.pushState(null, '', href)
  const previous = location.value.pathname
  location.value = current()
  if (location.value.pathname !== previous) window.scrollTo(0, 0)
}

/** Lets all links to pages of the console navigate without a reload. Other links stay as they are. */
export const followLinks = (): void => {
  window.addEventListener('popstate', () => {
    location.value = current()
  })
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (link === null || link.target !== '' || link.hasAttribute('download')) return
    const url = new URL(link.href)
    if (url.origin !== window.location.origin || matchRoute(url.pathname) === null) return
    if (url.hash !== '' && url.pathname === window.location.pathname) return
    event.preventDefault()
    navigate(`${url.pathname}${url.search}`)
  })
}

/** The key of the address to return to. The storage lasts as long as the tab. */
const RETURN_TO = 'return_to'

/** Keeps the address while the user signs in. A login link of a local hub always opens the start page. */
export const keepAddress = (): void => {
  const { pathname, search } = location.value
  try {
    window.sessionStorage.setItem(RETURN_TO, returnAddress(pathname, search))
  } catch {
    // Storage can be forbidden. Then the sign-in opens the start page.
  }
}

/** Returns to the kept address after a sign-in that opened the start page. */
export const returnToAddress = (): void => {
  try {
    const kept = window.sessionStorage.getItem(RETURN_TO)
    window.sessionStorage.removeItem(RETURN_TO)
    if (kept === null || location.value.pathname !== '/') return
    const url = new URL(kept, window.location.origin)
    navigate(returnAddress(url.pathname, url.search), { replace: true })
  } catch {
    // See `keepAddress`.
  }
}
