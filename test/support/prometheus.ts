/** Runs a real Prometheus for tests, if one is installed. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually, freePort } from '@hub/testkit'
import { runTool } from './external-tools.ts'

/** Says why a program cannot run on this machine. Returns `null` if it can. */
export const unavailableReason = async (program: 'prometheus' | 'promtool'): Promise<string | null> => {
  const { code } = await runTool(program, ['--version'], { withinMs: 60_000 })
  return code === 0 ? null : `${program} is not on the PATH (Debian: apt-get install prometheus)`
}

export type Answer =
  | { readonly status: 'success'; readonly series: number }
  | { readonly status: 'error'; readonly error: string }

export interface Prometheus {
  /** Evaluates a query now. */
  readonly query: (promql: string) => Promise<Answer>
  readonly stop: () => Promise<void>
}

/**
 * Starts a Prometheus that scrapes each job every second. Keys of `jobs` are names, values are
 * ports.
 */
export const startPrometheus = async (jobs: Readonly<Record<string, number>>): Promise<Prometheus> => {
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'prometheus-'))
  const config = join(folder, 'prometheus.yml')
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', scrape_timeout: '1s' },
      scrape_configs: Object.entries(jobs).map(([job, port]) => ({
        job_name: job,
        static_configs: [{ targets: [`127.0.0.1:${port}`] }],
      })),
    }),
  )
  const port = await freePort()
  const child = spawn(
    'prometheus',
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const base = `http://127.0.0.1:${port}`
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await eventually(
      async () => {
        const { ok } = await fetch(`${base}/-/ready`)
        return ok ? true : null
      },
      { everyMs: 100 },
    )
  } catch (error) {
    await stop()
    throw error
  }
  return {
    query: async (promql) => {
      const response = await fetch(`${base}/api/v1/query?query=${encodeURIComponent(promql)}`)
      const body = (await response.json()) as {
        readonly status: string
        readonly error?: string
        readonly data?: { readonly result: ReadonlyArray<unknown> }
      }
      return body.status === 'success'
        ? { status: 'success', series: body.data?.result.length ?? 0 }
        : { status: 'error', error: body.error ?? body.status }
    },
    stop,
  }
}
