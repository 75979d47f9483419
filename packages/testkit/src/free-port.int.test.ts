/** Ports between processes. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { assert, describe, it } from 'vitest'
import { freePort, isFree, reservePort } from './free-port.ts'

/** Whether another process may reserve a port. */
const mayReserve = async (port: number): Promise<boolean> => {
  const code = `
    import { reservePort } from ${JSON.stringify(new URL('free-port.ts', import.meta.url).href)}
    process.exit((await reservePort(${port})) ? 0 : 1)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: 'inherit' })
  const [exit] = (await once(child, 'exit')) as [number]
  return exit === 0
}

describe('a free port', () => {
  it('belongs to the process that asked for it, and can be listened on', async () => {
    const port = await freePort()
    assert.isTrue(await isFree(port))
    assert.isFalse(await reservePort(port))
    assert.isFalse(await mayReserve(port))
  })

  it('that a process has reserved is free again after its end', async () => {
    const port = await freePort()
    // Another port that this process has not reserved.
    const other = port === 19_999 ? 10_000 : port + 1
    assert.isTrue(await mayReserve(other))
    assert.isTrue(await mayReserve(other))
  })
})
