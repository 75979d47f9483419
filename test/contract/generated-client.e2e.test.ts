/**
 * Clients that stock generators create from the OpenAPI description send, send a batch and read. That in
 * TypeScript compiles under strict rules.
 */
import { mkdirSync, mkdtempSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { client } from '../support/client.ts'
import {
  goModules,
  goTool,
  javaCompilerMissing,
  javaLibrary,
  npmTool,
  onlyIn,
  orSkip,
  pythonTool,
  runTool,
} from '../support/external-tools.ts'
import { SHORT_JAVA_RUN } from '../support/program.ts'
import { compileProject } from '../support/typescript-project.ts'

/** The generator needs TypeScript 5, so it has its own folder. */
const PACKAGES = {
  'openapi-typescript': '7.13.0',
  'openapi-fetch': '0.17.0',
  typescript: '5.9.3',
} as const
/** A step takes seconds on a quiet machine, and a minute beside three other hubs on two cores. */
const STEP_WITHIN_MS = 170_000

/** A program that a user of the API might write. It prints its results. */
const PROGRAM = `
import createClient from 'openapi-fetch'
import type { paths } from './hub.js'

declare const process: { readonly argv: ReadonlyArray<string> }

const [baseUrl, key] = process.argv.slice(2)
if (baseUrl === undefined || key === undefined) throw new Error('usage: program <base url> <key>')
// The media type selects the type of an answer that exists in several: that of the stats.
const hub = createClient<paths, 'application/json'>({ baseUrl, headers: { Authorization: \`Bearer \${key}\` } })

const { data, error, response } = await hub.POST('/v1/messages/batch', {
  params: { header: { 'Idempotency-Key': 'generated-1' } },
  body: {
    messages: [
      { to: '+79000000001', class: 'service', template: 'order_ready', variables: { order: '1' }, client_ref: 'g-1' },
      { to: '+79000000002', class: 'otp', template: 'otp_code', variables: { code: 4821 }, client_ref: 'g-2' },
      { to: '+7900', class: 'service', template: 'order_ready', variables: { order: '3' }, client_ref: 'g-3' },
    ],
  },
})
if (data === undefined) throw new Error(\`\${response.status} \${error.error.code}\`)

const outcomes: Array<string> = []
for (const result of data.results) {
  switch (result.result) {
    case 'accepted':
      outcomes.push(result.message.id)
      break
    case 'duplicate':
      outcomes.push(result.message_url)
      break
    case 'rejected':
      outcomes.push(result.error.code)
      break
  }
}
const first = data.results[0]
if (first?.result !== 'accepted') throw new Error('the first element was not accepted')
const read = await hub.GET('/v1/messages/{id}', { params: { path: { id: first.message.id } } })
const estimate = await hub.POST('/v1/messages/estimate', {
  body: { to: '+79000000001', class: 'otp', template: 'otp_code', variables: { code: '1' } },
})
const events = await hub.GET('/v1/events', { params: { query: { limit: 10, type: ['message.accepted'] } } })
const stats = await hub.GET('/v1/stats', { params: { query: { group_by: 'class' } } })
const refused = await hub.GET('/v1/batches/{id}', { params: { path: { id: 'bat_nothing' } } })
console.log(
  JSON.stringify({
    status: response.status,
    id: data.id,
    counts: data.counts,
    outcomes,
    read: read.data?.status,
    text: read.data?.text,
    estimated: estimate.response.status,
    events: events.data?.object,
    stats: stats.data?.object,
    refused: refused.error?.error.code,
  }),
)
`

const PYTHON_GENERATOR = '0.29.1'

/** The same in Python. The generated classes read every value of an answer with its type. */
const PYTHON_PROGRAM = `
import json
import sys

from hub_client import AuthenticatedClient
from hub_client.api.batches import batches_read
from hub_client.api.messages import messages_estimate, messages_read, messages_send, messages_send_batch
from hub_client.api.stats import stats_read
from hub_client.models import AcceptedElement, BatchToSend, Error, RejectedElement, SendRequest

hub = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)


def message(to, template, variables, client_ref):
    of_class = "otp" if template == "otp_code" else "service"
    return {"to": to, "class": of_class, "template": template, "variables": variables, "client_ref": client_ref}


one = SendRequest.from_dict(message("+79000000001", "otp_code", {"code": 4821}, "py-1"))
sent = messages_send.sync(client=hub, body=one, idempotency_key="python-1")
elements = [
    message("+79000000001", "order_ready", {"order": "1"}, "py-2"),
    message("+7900", "order_ready", {"order": "2"}, "py-3"),
]
batch = messages_send_batch.sync(client=hub, body=BatchToSend.from_dict({"messages": elements}))
accepted, rejected = batch.results
assert isinstance(accepted, AcceptedElement) and isinstance(rejected, RejectedElement)
read = messages_read.sync(accepted.message.id, client=hub)
refused = batches_read.sync("bat_nothing", client=hub)
assert isinstance(refused, Error)
estimate = messages_estimate.sync(client=hub, body=SendRequest.from_dict(message("+79000000001", "otp_code", {"code": "1"}, "py-4")))
stats = stats_read.sync(client=hub)
print(
    json.dumps(
        {
            "sent": sent.id,
            "class": sent.class_,
            "counts": batch.counts.to_dict(),
            "rejected": rejected.error.code,
            "read": read.id == accepted.message.id,
            "text": read.text,
            "parts": read.parts,
            "estimated": estimate.parts,
            "stats": stats.object_,
            "refused": refused.error.code,
        }
    )
)
`

const GO_GENERATOR = 'v2.8.2'
const GO_MODULE = `
module example.com/client

go 1.24

require github.com/oapi-codegen/runtime v1.9.0
`

/** The same in Go. */
const GO_PROGRAM = `
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"example.com/client/hub"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Args[2])
		return nil
	}
	client, err := hub.NewClientWithResponses(os.Args[1], hub.WithRequestEditorFn(authorize))
	check(err)

	var one hub.SendRequest
	check(json.Unmarshal([]byte(\`{"to":"+79000000001","class":"otp","template":"otp_code","variables":{"code":4821},"client_ref":"go-1"}\`), &one))
	sent, err := client.MessagesSendWithResponse(ctx, nil, one)
	check(err)

	var elements hub.MessagesSendBatchJSONRequestBody
	check(json.Unmarshal([]byte(\`{"messages":[
		{"to":"+79000000001","class":"service","template":"order_ready","variables":{"order":"1"},"client_ref":"go-2"},
		{"to":"+7900","class":"service","template":"order_ready","variables":{"order":"2"},"client_ref":"go-3"}]}\`), &elements))
	batch, err := client.MessagesSendBatchWithResponse(ctx, nil, elements)
	check(err)
	accepted, err := batch.JSON202.Results[0].AsBatchResultAccepted()
	check(err)
	rejected, err := batch.JSON202.Results[1].ValueByDiscriminator()
	check(err)

	read, err := client.MessagesReadWithResponse(ctx, accepted.Message.Id)
	check(err)
	stats, err := client.StatsReadWithResponse(ctx, nil)
	check(err)
	refused, err := client.BatchesReadWithResponse(ctx, "bat_nothing")
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"sent":     sent.JSON202.Id,
		"accepted": batch.JSON202.Counts.Accepted,
		"rejected": rejected.(hub.BatchResultRejected).Error.Code,
		"read":     read.JSON200.Id == accepted.Message.Id,
		"parts":    read.JSON200.Parts,
		"stats":    stats.JSON200.Object,
		"refused":  refused.JSON404.Error.Code,
	}))
}
`

const JAVA_GENERATOR = '7.26.0'
const JAVA_CLIENT = join(import.meta.dirname, 'java-client')
/** The library of the client is that of the JDK. `jackson` reads and writes JSON. */
const JAVA_PROPERTIES =
  'library=native,apiPackage=hub.api,modelPackage=hub.model,invokerPackage=hub,openApiNullable=false,useJakartaEe=true'
/** The program uses neither the documentation of the client nor its tests. */
const JAVA_PARTS = 'apiDocs=false,modelDocs=false,apiTests=false,modelTests=false'

let hub: TestHub

beforeAll(async () => {
  hub = await startHub()
})
afterAll(() => hub?.stop())

/** Paths of the Java files in a folder and the folders in it. */
const javaFilesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.java'))
    .map((file) => join(folder, file))

/** Writes the description that the hub serves into a folder. Returns the path. */
const writeDescription = async (folder: string): Promise<string> => {
  const description = await client(hub.describe().base_url, null).get('/v1/openapi.json')
  const file = join(folder, 'openapi.json')
  writeFileSync(file, description.text)
  return file
}

describe('a client generated from the OpenAPI description', () => {
  it(
    'in TypeScript compiles and sends a batch',
    async (context) => {
      const tool = await orSkip(context, npmTool('generated-client-1', PACKAGES))
      const { base_url, keys } = hub.describe()
      const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'client-'))
      mkdirSync(join(dir, 'src'))
      symlinkSync(join(tool.folder, 'node_modules'), join(dir, 'node_modules'))
      writeFileSync(join(dir, 'package.json'), JSON.stringify({ type: 'module', private: true }))
      await writeDescription(dir)
      writeFileSync(join(dir, 'src/program.ts'), PROGRAM)
      const node = (script: string, ...args: ReadonlyArray<string>) =>
        runTool(process.execPath, [join(tool.folder, 'node_modules', script), ...args], {
          cwd: dir,
          withinMs: STEP_WITHIN_MS,
        })
      const generated = await node('openapi-typescript/bin/cli.js', 'openapi.json', '-o', 'src/hub.d.ts')
      expect(generated.code, generated.text).toBe(0)
      const compiled = await compileProject(dir, {
        toolFolder: tool.folder,
        compilerOptions: { lib: ['es2023', 'dom'] },
        withinMs: STEP_WITHIN_MS,
      })
      expect(compiled.code, compiled.text).toBe(0)
      const ran = await runTool(process.execPath, [join(dir, 'out/program.js'), base_url, keys.test], {
        cwd: dir,
        withinMs: STEP_WITHIN_MS,
      })
      expect(ran.code, ran.text).toBe(0)
      expect(JSON.parse(ran.text)).toMatchObject({
        status: 202,
        id: expect.stringMatching(/^bat_/u),
        counts: { total: 3, accepted: 2, rejected: 1, duplicate: 0 },
        outcomes: [expect.stringMatching(/^msg_/u), expect.stringMatching(/^msg_/u), 'recipient_invalid'],
        text: 'Заказ 1 готов',
        estimated: 200,
        events: 'list',
        stats: 'stats',
        refused: 'not_found',
      })
    },
    4 * STEP_WITHIN_MS,
  )

  it(
    'in Python sends, sends a batch and reads',
    async (context) => {
      const { folder } = await orSkip(context, pythonTool('openapi-python-client', PYTHON_GENERATOR))
      const { base_url, keys } = hub.describe()
      const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'client-'))
      const python = (...args: ReadonlyArray<string>) =>
        runTool(join(folder, 'bin/python'), args, { cwd: dir, withinMs: STEP_WITHIN_MS })
      // Without a configuration, the generator formats its code with a program that it does not install.
      writeFileSync(join(dir, 'config.yml'), 'post_hooks: []\n')
      const words = '--config config.yml --meta none --output-path hub_client --fail-on-warning'.split(' ')
      const description = await writeDescription(dir)
      const generated = await python(
        '-m',
        'openapi_python_client',
        'generate',
        '--path',
        description,
        ...words,
      )
      expect(generated.code, generated.text).toBe(0)
      writeFileSync(join(dir, 'program.py'), PYTHON_PROGRAM)
      const ran = await python('program.py', base_url, keys.test)
      expect(ran.code, ran.text).toBe(0)
      expect(JSON.parse(ran.text)).toMatchObject({
        sent: expect.stringMatching(/^msg_/u),
        class: 'otp',
        counts: { total: 2, accepted: 1, rejected: 1 },
        rejected: 'recipient_invalid',
        read: true,
        text: 'Заказ 1 готов',
        parts: 1,
        estimated: 1,
        stats: 'stats',
        refused: 'not_found',
      })
    },
    4 * STEP_WITHIN_MS,
  )

  it(
    'in Go sends, sends a batch and reads',
    async (context) => {
      await orSkip(context, onlyIn('generated-clients'))
      const { folder } = await orSkip(
        context,
        goTool(
          `oapi-codegen-${GO_GENERATOR}`,
          `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${GO_GENERATOR}`,
        ),
      )
      const { base_url, keys } = hub.describe()
      const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'client-'))
      mkdirSync(join(dir, 'hub'))
      writeFileSync(join(dir, 'go.mod'), GO_MODULE)
      writeFileSync(join(dir, 'main.go'), GO_PROGRAM)
      const step = async (command: string, ...args: ReadonlyArray<string>): Promise<string> => {
        const { code, text } = await runTool(command, args, { cwd: dir, withinMs: STEP_WITHIN_MS })
        expect(code, text).toBe(0)
        return text
      }
      const description = await writeDescription(dir)
      const generator = join(folder, 'oapi-codegen')
      await step(generator, '-generate', 'types,client', '-package', 'hub', '-o', 'hub/hub.go', description)
      // The cached generator is not enough: the generated code has libraries.
      await orSkip(context, goModules(dir))
      await step('go', 'build', '-o', 'program', '.')
      expect(JSON.parse(await step(join(dir, 'program'), base_url, keys.test))).toEqual({
        sent: expect.stringMatching(/^msg_/u),
        accepted: 1,
        rejected: 'recipient_invalid',
        read: true,
        parts: 1,
        stats: 'stats',
        refused: 'not_found',
      })
    },
    // The first run compiles the generator.
    8 * STEP_WITHIN_MS,
  )

  it(
    'in Java sends, sends a batch and reads',
    async (context) => {
      await orSkip(context, onlyIn('generated-clients'))
      const libraries = await orSkip(
        context,
        javaLibrary({
          pom: join(JAVA_CLIENT, 'pom.xml'),
          checksums: join(JAVA_CLIENT, 'jars.sha256'),
          what: 'the libraries of a generated Java client',
          size: '3 MB',
        }),
      )
      const missing = await javaCompilerMissing(libraries.java)
      if (missing !== null) await orSkip(context, { missing })
      const { folder } = await orSkip(context, pythonTool('openapi-generator-cli', JAVA_GENERATOR))
      const { base_url, keys } = hub.describe()
      const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'client-'))
      const step = async (command: string, ...args: ReadonlyArray<string>): Promise<string> => {
        const { code, text } = await runTool(command, args, { cwd: dir, withinMs: STEP_WITHIN_MS })
        expect(code, text).toBe(0)
        return text
      }
      const description = await writeDescription(dir)
      // The package of the generator has one jar. Its program starts the `java` of the PATH, if there is one.
      const [jar = ''] = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
        file.endsWith('openapi-generator.jar'),
      )
      const java = (...args: ReadonlyArray<string>) => step(libraries.java, ...SHORT_JAVA_RUN, ...args)
      const words = ['-g', 'java', '-o', 'generated', '--additional-properties', JAVA_PROPERTIES]
      words.push('--global-property', JAVA_PARTS)
      await java('-jar', join(folder, jar), 'generate', '-i', description, ...words)
      const classPath = ['-cp', `${join(dir, 'classes')}:${libraries.classPath}`]
      const compiler = ['-m', 'jdk.compiler/com.sun.tools.javac.Main', '-d', 'classes', ...classPath]
      const sources = [join(JAVA_CLIENT, 'Program.java'), ...javaFilesIn(join(dir, 'generated/src/main'))]
      await java(...compiler, ...sources)
      expect(JSON.parse(await java(...classPath, 'Program', base_url, keys.test))).toEqual({
        sent: expect.stringMatching(/^msg_/u),
        accepted: 1,
        rejected: 'recipient_invalid',
        read: true,
        text: 'Заказ 1 готов',
        parts: 1,
        events: true,
        stats: 'stats',
        refused: '404 not_found',
      })
    },
    4 * STEP_WITHIN_MS,
  )
})
