/**
 * Chromium for tests: the program that `HUB_TEST_CHROMIUM` names, or that of the machine, or that in
 * the npm package `@sparticuz/chromium`.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { npmTool, runTool } from './external-tools.ts'

const VERSION = '153.0.0'

/** Where packages of Linux distributions install it. */
const INSTALLED = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

const HOW_TO_GET =
  'Install Chromium (Debian or Ubuntu: apt install chromium), or name its program with HUB_TEST_CHROMIUM.'

/** Unpacks 200 MB, or reads them from disk. */
const READY_WITHIN_MS = 120_000

interface Program {
  readonly path: string
  readonly environment: Readonly<Record<string, string>>
}

/** The package unpacks its files into the temporary folder: here the folder of the tool. */
const UNPACK = `
  const { default: chromium, inflate } = await import('@sparticuz/chromium')
  await chromium.executablePath()
  await inflate('node_modules/@sparticuz/chromium/bin/al2023.tar.br')`

/** Without a font, Chromium crashes. Those of the machine have more characters. */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
`

/** The program of the npm package, with the shared libraries and fonts beside it. */
const fromNpm = async (): Promise<Program | { readonly missing: string }> => {
  const tool = await npmTool(`chromium-${VERSION}`, { '@sparticuz/chromium': VERSION }, (folder) => {
    writeFileSync(join(folder, 'fonts.conf'), FONTS)
    return runTool('env', [`TMPDIR=${folder}`, process.execPath, '--input-type=module', '--eval', UNPACK], {
      cwd: folder,
      withinMs: READY_WITHIN_MS,
    })
  })
  if ('missing' in tool) return tool
  return {
    path: join(tool.folder, 'chromium'),
    environment: {
      LD_LIBRARY_PATH: join(tool.folder, 'al2023/lib'),
      FONTCONFIG_FILE: join(tool.folder, 'fonts.conf'),
    },
  }
}

const installed = (): Program | null => {
  const path = [process.env['HUB_TEST_CHROMIUM'] ?? '', ...INSTALLED].find(
    (one) => one !== '' && existsSync(one),
  )
  return path === undefined ? null : { path, environment: {} }
}

/** Starts Chromium. Returns the reason if no browser runs on this machine. */
export const startBrowser = async (): Promise<Browser | { readonly missing: string }> => {
  const program = installed() ?? (await fromNpm())
  if ('missing' in program) return { missing: `${program.missing} ${HOW_TO_GET}` }
  try {
    return await chromium.launch({
      executablePath: program.path,
      // Containers have no user namespaces for the sandbox, and the tests open only pages of the hub.
      args: ['--no-sandbox', '--no-zygote', '--disable-gpu'],
      env: { ...(process.env as Record<string, string>), ...program.environment },
      timeout: READY_WITHIN_MS,
    })
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n').slice(0, 12).join(' ') : String(error)
    return { missing: `${program.path} does not start: ${reason} ${HOW_TO_GET}` }
  }
}
