/** The overview as it changes: server-sent events, with the state of the connection. */
import { useEffect, useState } from 'preact/hooks'
import { loadSession } from './client.ts'
import type { Overview } from './types.ts'

export interface Live {
  /** `null`: nothing has arrived yet. */
  readonly overview: Overview | null
  /** False while the connection is broken. The browser connects again by itself. */
  readonly isConnected: boolean
}

/** After an answer that is no stream, such as 401, the browser gives up. Then the console tries again. */
const RETRY_AFTER_MS = 5_000

export const useOverview = (): Live => {
  const [live, setLive] = useState<Live>({ overview: null, isConnected: true })
  useEffect(() => {
    let source: EventSource | null = null
    let timer: ReturnType<typeof setTimeout> | null = null
    const connect = (): void => {
      source = new EventSource('/v1/overview/stream')
      source.addEventListener('open', () => setLive((last) => ({ ...last, isConnected: true })))
      source.addEventListener('overview', (event) => {
        setLive({ overview: JSON.parse(String(event.data)) as Overview, isConnected: true })
      })
      source.addEventListener('error', () => {
        setLive((last) => ({ ...last, isConnected: false }))
        if (source?.readyState !== EventSource.CLOSED) return
        // The session may have ended.
        void loadSession()
        timer = setTimeout(connect, RETRY_AFTER_MS)
      })
    }
    connect()
    return () => {
      source?.close()
      if (timer !== null) clearTimeout(timer)
    }
  }, [])
  return live
}
