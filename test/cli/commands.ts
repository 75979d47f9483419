/** The other commands of `hub`: `listen` loses nothing when it is killed, and each works against a hub. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '@hub/testkit'
import { createHubClient, type HubClient, readEvents } from '@sms-delivery-hub/client'
import { beforeAll, describe, expect, it } from 'vitest'
import type { TestHub } from '../support/hub.ts'
import { newConfigFolder, runHubCommand, startHubCommand } from '../support/hub-command.ts'
import type { WebhookReceiver } from '../support/webhook-receiver.ts'
import { startLocalReceiver } from './local-receiver.ts'

/** `fixture`: the hub, a receiver that it may post to, and the command that starts `hub`. */
export const describeCommands = (
  fixture: () => {
    readonly hub: TestHub
    readonly receiver: WebhookReceiver
    readonly program: ReadonlyArray<string>
  },
): void => {
  let hub: TestHub
  let receiver: WebhookReceiver
  let program: ReadonlyArray<string>
  let config = ''
  let client: HubClient
  beforeAll(() => {
    ;({ hub, program, receiver } = fixture())
    config = newConfigFolder()
    client = createHubClient({ baseUrl: hub.describe().base_url, apiKey: hub.describe().keys.test })
  })
  const start = (args: ReadonlyArray<string>) => startHubCommand(hub, config, args, program)
  const run = (...args: ReadonlyArray<string>) => runHubCommand(hub, config, args, program)

  describe('hub send, messages and trigger', () => {
    it('send one message, wait for its delivery, and read it', async () => {
      const send = [
        'send',
        '--to',
        '+79000000001',
        '--template',
        'otp_code',
        '-v',
        'code=1234',
        '--client-ref',
        'a-1',
      ]
      const sent = await run(...send, '--wait')
      expect(sent.code, sent.err).toBe(0)
      expect(sent.json).toMatchObject({ status: 'delivered', client_ref: 'a-1' })
      expect((await run(...send)).json).toMatchObject({ id: sent.json.id, duplicate: true })
      expect((await run('messages', 'get', sent.json.id)).json).toEqual(sent.json)
      const listed = await run('messages', 'list', '--client-ref', 'a-1')
      expect(listed.json.data.map(({ id }: { id: string }) => id)).toEqual([sent.json.id])
      const unknown = await run('messages', 'get', 'msg_01m7yt89qhe54swwc8wkxj6n8e')
      expect([unknown.code, JSON.parse(unknown.err.slice(unknown.err.indexOf('{'))).error.code]).toEqual([
        1,
        'not_found',
      ])
    })

    it.each(['message.delivered', 'message.rejected', 'message.expired', 'message.seen', 'batch.completed'])(
      'trigger %s and return the event',
      async (type) => {
        const triggered = await run('trigger', type)
        expect(triggered.code, triggered.err).toBe(0)
        expect(triggered.json).toMatchObject({ object: 'event', type })
      },
    )

    it('refuse a wrong number, template and value with one sentence and exit code 1', async () => {
      for (const [words, code] of [
        [['--to', '+7900', '--template', 'otp_code', '-v', 'code=1'], 'recipient_invalid'],
        [['--to', '+79000000001', '--template', 'nothing'], 'template_not_found'],
        [['--to', '+79000000001', '--template', 'otp_code'], 'template_variable_missing'],
      ] as const) {
        const ran = await run('send', ...words)
        expect([ran.code, JSON.parse(ran.err.slice(ran.err.indexOf('{'))).error.code]).toEqual([1, code])
      }
    })
  })

  describe('hub listen', () => {
    it('passes each event on with a valid signature, although it is killed and the receiver is away', async () => {
      let status = 204
      const target = await startLocalReceiver(() => status)
      const words = ['listen', '--forward-to', target.url, '--json']
      const wanted: Array<string> = []
      const send = async (): Promise<void> => {
        const message = await client.messages.send({
          to: '+79000000001',
          class: 'otp',
          template: 'otp_code',
          variables: { code: '1' },
        })
        wanted.push(message.id)
      }
      const isComplete = (): boolean => {
        const seen = target.bodies.flatMap(({ body }) => JSON.parse(body) as Array<any>)
        return wanted.every((id) =>
          seen.some(({ data, type }) => type === 'message.delivered' && data.object.id === id),
        )
      }
      const secrets = new Set<string>()
      for (let round = 0; round < 3; round++) {
        const listening = start(words)
        await eventually(() => listening.out().includes('\n'), { everyMs: 20 })
        secrets.add(JSON.parse(listening.out().split('\n')[0] ?? '').secret)
        await send()
        // In the second round, it is killed before or while it passes the events on.
        if (round !== 1) await eventually(isComplete, { everyMs: 20 })
        listening.child.kill('SIGKILL')
        await listening.ended
        await send()
      }
      expect(secrets.size).toBe(1)
      const [secret = ''] = secrets
      for (const { body, signature } of target.bodies) await readEvents(body, signature, secret)

      // The receiver is away: the command waits for it.
      await target.stop()
      const listening = start(words)
      await eventually(() => listening.err().includes('cannot be reached (ECONNREFUSED)'))
      status = 500
      await target.start()
      await eventually(isComplete, { everyMs: 20 })
      // A bad answer is reported, and does not stop the next events.
      await eventually(() => listening.err().includes('The receiver answered 500'))
      await send()
      await eventually(isComplete, { everyMs: 20 })
      listening.child.kill('SIGINT')
      expect(await listening.ended).toBe(130)
      await target.stop()
    })
  })

  describe('hub events, doctor and templates', () => {
    it('tail events from the start, as one JSON document on each line', async () => {
      const tail = start(['events', 'tail', '--after', 'start', '--limit', '3', '--json'])
      expect(await tail.ended).toBe(0)
      const lines = tail.out().trim().split('\n')
      expect(lines.map((line) => JSON.parse(line).object)).toEqual(['event', 'event', 'event'])
    })

    it('resend an event to the subscription that got it, and report webhooks as the hub sees them', async () => {
      expect((await run('doctor')).json.data.at(-1)).toMatchObject({ check: 'webhooks', result: 'skipped' })
      const endpoint = await client.webhookEndpoints.create({ url: receiver.url() })
      const triggered = await run('trigger', 'message.delivered')
      await eventually(async () => {
        for await (const _ of client.webhookEndpoints.deliveries(endpoint.id, {
          event: triggered.json.id,
        })) {
          return true
        }
        return false
      })
      const resent = await run('events', 'resend', triggered.json.id)
      expect(resent.code, resent.err).toBe(0)
      expect(resent.json).toMatchObject({ resend: true, status: 'succeeded', response_code: 200 })

      const good = await run('doctor')
      expect(good.code).toBe(0)
      expect(good.json.data.at(-1)).toMatchObject({ check: `webhook ${endpoint.id}`, result: 'ok' })
      await client.webhookEndpoints.update(endpoint.id, { url: 'https://127.0.0.1:1/' })
      const bad = await run('doctor')
      expect(bad.code).toBe(1)
      expect(bad.json.data.at(-1)).toMatchObject({
        result: 'failed',
        detail: expect.stringContaining('nothing listens'),
      })
      expect((await run('doctor', '--no-deliveries')).code).toBe(0)
      await client.webhookEndpoints.delete(endpoint.id)
    })

    it('push templates to test mode, report differences, and promote to live only what was tested', async () => {
      const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'templates-'))
      const write = (name: string, body: string): void =>
        writeFileSync(join(folder, `${name}.txt`), `class: service\nsender: HUB\nlanguage: ru\n\n${body}\n`)
      write('cli_hello', 'Здравствуйте, {{name}}!')
      const results = (ran: Awaited<ReturnType<typeof run>>) =>
        ran.json.data.map(({ name, result }: { name: string; result: string }) => [name, result])

      expect(results(await run('templates', 'push', folder, '--live', '--yes'))).toEqual([
        ['cli_hello', 'not in test mode'],
      ])
      expect(results(await run('templates', 'push', folder, '--dry-run'))).toEqual([
        ['cli_hello', 'would be created'],
      ])
      expect(results(await run('templates', 'push', folder))).toEqual([['cli_hello', 'created']])
      expect(results(await run('templates', 'push', folder))).toEqual([['cli_hello', 'unchanged']])
      const unconfirmed = await run('templates', 'push', folder, '--live')
      expect(unconfirmed.err).toContain('confirmation_required')
      const promoted = await run('templates', 'push', folder, '--live', '--yes')
      expect(promoted.code, promoted.err).toBe(0)
      expect(promoted.json.data).toMatchObject([{ result: 'created', status: 'pending_moderation' }])

      write('cli_hello', 'Привет, {{name}}!')
      const changed = await run('templates', 'push', folder)
      expect(changed.code).toBe(1)
      expect(changed.json.data).toMatchObject([{ result: 'differs', differs: ['body'] }])
      writeFileSync(join(folder, 'broken.txt'), 'class: service\nsendr: HUB\n\ntext')
      expect((await run('templates', 'push', folder)).err).toContain('line 2: a field must be one of')
      const listed = await run('templates', 'list')
      expect(listed.json.data.map(({ name }: { name: string }) => name)).toContain('cli_hello')
    })

    it('count in stats what was sent', async () => {
      const stats = await run('stats', '--group-by', 'template')
      expect(stats.json.totals.accepted).toBeGreaterThan(0)
    })
  })
}
