/**
 * The example receivers in other languages judge the signature vectors as they should, and verify what
 * `hub listen` passes on from a hub. A language without its tools on this machine is skipped.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { eventually, freePort } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runOrThrow } from '../support/client-package.ts'
import { runTool } from '../support/external-tools.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { newConfigFolder, runHubCommand, startHubCommand } from '../support/hub-command.ts'
import { type Program, startProgram } from '../support/program.ts'

const EXAMPLES = join(ROOT, 'examples/receivers')
const VECTORS = join(ROOT, 'packages/client/conformance/signatures.json')
/** The first compilation of a Go program compiles its standard library: minutes on a busy machine. */
const BUILT_WITHIN_MS = 600_000
const JUDGED_WITHIN_MS = BUILT_WITHIN_MS + 180_000

let hub: TestHub
let folder = ''
const programs: Array<Program> = []
beforeAll(async () => {
  hub = await startHub()
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'receivers-'))
})
afterAll(async () => {
  for (const program of programs) await program.stop()
  await hub.stop()
})

interface Vector {
  readonly name: string
  readonly header: string | null
  readonly body_base64: string
  readonly valid: boolean
}
const document = JSON.parse(readFileSync(VECTORS, 'utf8')) as {
  readonly secret: string
  readonly now: number
  readonly vectors: ReadonlyArray<Vector>
}

interface Language {
  readonly name: string
  /** A command that shows whether the tools exist. */
  readonly probe: readonly [string, ...ReadonlyArray<string>]
  /** Judges all vectors. Throws if the receiver judges one in another way. */
  readonly judge: () => Promise<unknown>
  /** Builds the receiver. Returns the command that starts it. */
  readonly build: () => Promise<readonly [string, ...ReadonlyArray<string>]>
}

const PYTHON_JUDGE = `
import base64, json, sys
sys.path.insert(0, ${JSON.stringify(join(EXAMPLES, 'python'))})
from receiver import is_from_hub
document = json.load(open(${JSON.stringify(VECTORS)}, encoding="utf-8"))
for vector in document["vectors"]:
    body = base64.b64decode(vector["body_base64"])
    judged = is_from_hub(body, vector["header"], [document["secret"]], document["now"])
    assert judged == vector["valid"], vector["name"]
print("judged", len(document["vectors"]))
`

/** Java has no JSON library, so the vectors are the lines of a file: valid, header, body. */
const JAVA_JUDGE = `
import java.nio.file.*;
import java.util.*;
public class Judge {
  public static void main(String[] arguments) throws Exception {
    var judged = 0;
    for (var line : Files.readAllLines(Path.of(arguments[0]))) {
      var parts = line.split("\\t", -1);
      var body = Base64.getDecoder().decode(parts[2]);
      var header = parts[1].equals("-") ? null : parts[1];
      var valid = Receiver.isFromHub(body, header, List.of(arguments[1]), Long.parseLong(arguments[2]));
      if (valid != parts[0].equals("true")) throw new Exception("judged in another way: " + line);
      judged++;
    }
    System.out.println("judged " + judged);
  }
}
`

const compileJava = async (): Promise<string> => {
  const out = join(folder, 'java')
  writeFileSync(join(folder, 'Judge.java'), JAVA_JUDGE)
  const sources = [join(EXAMPLES, 'java/Receiver.java'), join(folder, 'Judge.java')]
  await runOrThrow('javac', ['-d', out, ...sources], folder, BUILT_WITHIN_MS)
  return out
}

const LANGUAGES: ReadonlyArray<Language> = [
  {
    name: 'Python',
    probe: ['python3', '--version'],
    judge: async () => {
      const text = await runOrThrow('python3', ['-c', PYTHON_JUDGE], folder)
      expect(text).toBe(`judged ${document.vectors.length}\n`)
    },
    build: async () => ['python3', join(EXAMPLES, 'python/receiver.py')],
  },
  {
    name: 'Go',
    probe: ['go', 'version'],
    // The example has the test itself, as a program of an integrator would.
    judge: async () => {
      const text = await runOrThrow(
        'go',
        ['test', '-count=1', '-v', '.'],
        join(EXAMPLES, 'go'),
        BUILT_WITHIN_MS,
      )
      expect(text).toContain('PASS: TestSignatureVectors')
    },
    build: async () => {
      const program = join(folder, 'receiver-go')
      await runOrThrow('go', ['build', '-o', program, '.'], join(EXAMPLES, 'go'), BUILT_WITHIN_MS)
      return [program]
    },
  },
  {
    name: 'Java',
    probe: ['javac', '-version'],
    judge: async () => {
      const out = await compileJava()
      const lines = document.vectors.map(
        ({ body_base64, header, valid }) => `${valid}\t${header ?? '-'}\t${body_base64}`,
      )
      const file = join(folder, 'vectors.tsv')
      writeFileSync(file, lines.join('\n'))
      const words = ['-cp', out, 'Judge', file, document.secret, String(document.now)]
      expect(await runOrThrow('java', words, folder)).toBe(`judged ${document.vectors.length}\n`)
    },
    build: async () => ['java', '-cp', await compileJava(), 'Receiver'],
  },
]

describe.each(LANGUAGES)('the example receiver in $name', ({ build, judge, name, probe }) => {
  let missing: string | null = null
  beforeAll(async () => {
    const [command, ...args] = probe
    const { code, text } = await runTool(command, args, { withinMs: 60_000 })
    missing = code === 0 ? null : `${name} cannot be run: ${text.trim()}`
    if (missing !== null) console.log(`Skipped: ${missing}`)
  })

  it(
    'judges each signature vector as it says',
    async (context) => {
      if (missing !== null) return context.skip(missing)
      await judge()
    },
    JUDGED_WITHIN_MS,
  )

  it(
    'verifies the events of a hub that hub listen passes on',
    async (context) => {
      if (missing !== null) return context.skip(missing)
      const [command, ...args] = await build()
      const config = newConfigFolder()
      const port = await freePort()
      const forwardTo = `http://127.0.0.1:${port}/`
      const listening = startHubCommand(hub, config, ['listen', '--forward-to', forwardTo, '--json'])
      await eventually(() => listening.out().includes('\n'), { everyMs: 50 })
      const { secret } = JSON.parse(listening.out().split('\n')[0] ?? '')
      // As during a rotation: a receiver with two secrets.
      const environment = [`PORT=${port}`, `HUB_WEBHOOK_SECRET=whsec_other,${secret}`]
      const program = startProgram('env', [...environment, command, ...args])
      programs.push(program)
      const triggered = await runHubCommand(hub, config, ['trigger', 'message.delivered'])
      expect(triggered.code, triggered.err).toBe(0)
      const line = `message.delivered ${triggered.json.id}`
      await eventually(() => program.lines.includes(line), { everyMs: 50 })
      const refused = await fetch(forwardTo, {
        method: 'POST',
        headers: { 'hub-signature': 't=1,v1=0' },
        body: '[]',
      })
      expect(refused.status).toBe(400)
      listening.child.kill('SIGINT')
      await listening.ended
      await program.stop()
    },
    JUDGED_WITHIN_MS,
  )
})
