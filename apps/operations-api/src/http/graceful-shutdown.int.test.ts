/** The end of the process: open pages of the console must not delay it. */
import { connect } from 'node:net'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { startOperationsApi } from '../testing/harness.ts'

describe('the end of the process', () => {
  it('ends streams, and closes connections without a request', async () => {
    const api = await startOperationsApi()
    const session = await api.signIn('Anna', 'viewer')
    const response = await fetch(`${api.url}/v1/overview/stream`, { headers: { cookie: session.cookie } })
    const unused = connect(Number(new URL(api.url).port), '127.0.0.1')
    await once(unused, 'connect')
    const closed = once(unused, 'close')
    // Without that, the end would wait for the stream until the drain time of 21 s is over, and break it.
    const text = response.text()
    await Promise.all([api.stop(), closed])
    expect(await text).toContain('event: overview')
  })
})
