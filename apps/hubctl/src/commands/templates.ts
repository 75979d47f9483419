/** `hubctl templates`: the moderation queue, and the decisions of the SMS operator. */
import { defineGroup } from '@hub/command-line'
import { TEMPLATE_STATUSES } from '@hub/domain'
import { Templates } from '@hub/operations'
import { takesEffect } from '../command-line/arguments.ts'
import { moderationCommands } from './moderation.ts'

export const templates = defineGroup(
  'templates',
  {
    short: 'Templates: moderation queue, approve, decline',
    about:
      'The SMS operator moderates templates manually, and hub staff record its decisions here. In ' +
      'test mode a template needs no moderation.',
  },
  moderationCommands({
    kind: 'template',
    prefix: 'tpl',
    statuses: TEMPLATE_STATUSES,
    useCases: Templates,
    columns: {
      template: (row) => row.id,
      account: (row) => row.account,
      mode: (row) => row.mode,
      name: (row) => row.name,
      class: (row) => row.class,
      sender: (row) => row.sender,
      status: (row) => row.status,
      created: (row) => row.created_at,
      text: (row) => row.body,
    },
    texts: {
      queue: {
        short: 'List templates that wait for moderation',
        about: 'Lists live templates that wait for a decision of the SMS operator, oldest first.',
        example: '',
      },
      list: {
        short: 'List templates',
        about: 'Lists templates of all accounts or of one, oldest first.',
        example: '--status declined --account acc_01m7yt89qhe54swwc8wkxj6n8e',
      },
      show: {
        short: 'Show a template',
        about: 'Shows a template with its text, its decision, and the status of its sender.',
      },
      approve: {
        short: 'Record an approval by the SMS operator',
        about: 'Records that the SMS operator has approved a template. An earlier refusal can be replaced.',
        changes:
          'The template can be used immediately if its sender is registered. The account gets the ' +
          'event template.approved.',
      },
      decline: {
        short: 'Record a refusal by the SMS operator',
        about:
          'Records that the SMS operator has declined a template, with the reason. Sends with it get ' +
          '422 template_declined. An earlier approval can be replaced.',
        changes:
          `The template cannot be used in either mode. ${takesEffect('settings')} The account gets ` +
          'the event template.declined with the reason.',
        example: 'tpl_01m7yt89qhe54swwc8wkxj6n8e --reason "It names no sender"',
      },
    },
  }),
)
