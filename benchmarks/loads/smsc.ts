/** The operator simulator as an SMSC in its own process. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '@hub/testkit'
import { startProgram } from './child-process.ts'

export const startSmsc = async () => {
  const directory = mkdtempSync(join(tmpdir(), 'hub-bench-smsc-'))
  const [control, smpp, callback] = [await freePort(), await freePort(), await freePort()]
  const url = `http://127.0.0.1:${control}`
  const child = await startProgram('infra/local/operator-simulator/main.ts', {
    upAt: `${url}/statistics`,
    environment: {
      HUB_OPERATOR_SIMULATOR_PORT: String(control),
      HUB_OPERATOR_SIMULATOR_SMPP_PORT: String(smpp),
      HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID: 'hub',
      HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD: 'bench',
      HUB_OPERATOR_HTTP_SECRET: 'bench',
      HUB_OPERATOR_CALLBACK_URL: `http://127.0.0.1:${callback}/reports`,
      HUB_OPERATOR_JOURNAL: join(directory, 'journal.jsonl'),
    },
  })
  return {
    environment: {
      HUB_OPERATOR_SMPP_URL: `smpp://hub@127.0.0.1:${smpp}`,
      HUB_OPERATOR_SMPP_PASSWORD: 'bench',
    },
    /** Changes settings of the simulator, such as `throttle_per_second`. */
    behave: async (behaviour: Readonly<Record<string, number | null>>): Promise<void> => {
      const response = await fetch(`${url}/behaviour`, { method: 'PUT', body: JSON.stringify(behaviour) })
      if (!response.ok) throw new Error(`The simulator refused its behaviour with ${response.status}.`)
    },
    /** The parts that it accepted and throttled since its start. */
    parts: async (): Promise<{ readonly accepted: number; readonly throttled: number }> => {
      const response = await fetch(`${url}/statistics`)
      const { parts, throttled } = (await response.json()) as {
        readonly parts: number
        readonly throttled: number
      }
      return { accepted: parts, throttled }
    },
    close: (): void => {
      child.kill('SIGKILL')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
