/**
 * `hubctl senders`: the names that recipients see, and their registration with the SMS operator.
 */
import { defineGroup } from '@hub/command-line'
import { SENDER_STATUSES } from '@hub/domain'
import { Senders } from '@hub/operations'
import { takesEffect } from '../command-line/arguments.ts'
import { moderationCommands } from './moderation.ts'

export const senders = defineGroup(
  'senders',
  {
    short: 'Senders: waiting registrations, approve, decline',
    about:
      'A sender is a name that recipients see. Hub staff register it with the SMS operator. In test ' +
      'mode a sender needs no registration.',
  },
  moderationCommands({
    kind: 'sender',
    prefix: 'snd',
    statuses: SENDER_STATUSES,
    useCases: Senders,
    columns: {
      sender: (row) => row.id,
      account: (row) => row.account,
      mode: (row) => row.mode,
      name: (row) => row.name,
      status: (row) => row.status,
      reason: (row) => row.reason,
      created: (row) => row.created_at,
    },
    texts: {
      queue: {
        short: 'List senders that wait for registration',
        about: 'Lists live senders that wait for registration with the SMS operator, oldest first.',
        example: '',
      },
      list: {
        short: 'List senders',
        about: 'Lists senders of all accounts or of one, oldest first.',
        example: '--account acc_01m7yt89qhe54swwc8wkxj6n8e',
      },
      show: {
        short: 'Show a sender with its registration data',
        about: 'Shows a sender with the registration object that the SMS operator requires.',
      },
      approve: {
        short: 'Record a registration by the SMS operator',
        about: 'Records that the SMS operator has registered a sender. An earlier refusal can be replaced.',
        changes:
          'Approved templates of the sender can be used immediately. The account gets the event ' +
          'sender.registered.',
      },
      decline: {
        short: 'Record a refusal by the SMS operator',
        about:
          'Records that the SMS operator has declined a sender, with the reason. Sends with its ' +
          'templates get 422 sender_not_registered.',
        changes:
          `No template of the sender can be used. ${takesEffect('settings')} The account gets the ` +
          'event sender.declined with the reason.',
        example: 'snd_01m7yt89qhe54swwc8wkxj6n8e --reason "The name is taken"',
      },
    },
  }),
)
