/**
 * The PDUs that an SMSC and the hub exchange, with their mandatory fields in order, and the TLVs.
 * Source: SMPP 3.4, 4 (PDUs), 5.1.2.1 (command ids) and 5.3.2 (TLVs). The others (`submit_multi`,
 * `query_sm`, `cancel_sm`, `replace_sm`) are requests of clients that the hub does not make.
 */

/** `command_length`, `command_id`, `command_status` and `sequence_number`. */
export const HEADER_OCTETS = 16
/** Tag and length. */
export const TLV_HEADER_OCTETS = 4

/** `octet`: an integer. `text`: it ends with NUL. `message`: the octet `sm_length`, then the text. */
export type FieldKind = 'octet' | 'text' | 'message'

interface Definition {
  readonly id: number
  readonly fields: ReadonlyArray<readonly [name: string, kind: FieldKind]>
  /** "The body is not returned if `command_status` contains a non-zero value." 4.1.2, 4.4.2 */
  readonly hasNoBodyOnError?: true
}

const BIND = [
  ['system_id', 'text'],
  ['password', 'text'],
  ['system_type', 'text'],
  ['interface_version', 'octet'],
  ['addr_ton', 'octet'],
  ['addr_npi', 'octet'],
  ['address_range', 'text'],
] as const

const BIND_RESP = [['system_id', 'text']] as const

const ADDRESSES = [
  ['service_type', 'text'],
  ['source_addr_ton', 'octet'],
  ['source_addr_npi', 'octet'],
  ['source_addr', 'text'],
  ['dest_addr_ton', 'octet'],
  ['dest_addr_npi', 'octet'],
  ['destination_addr', 'text'],
  ['esm_class', 'octet'],
] as const

const SHORT_MESSAGE = [
  ...ADDRESSES,
  ['protocol_id', 'octet'],
  ['priority_flag', 'octet'],
  ['schedule_delivery_time', 'text'],
  ['validity_period', 'text'],
  ['registered_delivery', 'octet'],
  ['replace_if_present_flag', 'octet'],
  ['data_coding', 'octet'],
  ['sm_default_msg_id', 'octet'],
  ['short_message', 'message'],
] as const

const DATA = [...ADDRESSES, ['registered_delivery', 'octet'], ['data_coding', 'octet']] as const

const MESSAGE_ID = [['message_id', 'text']] as const

export const COMMANDS = {
  generic_nack: { id: 0x8000_0000, fields: [] },
  bind_receiver: { id: 0x01, fields: BIND },
  bind_receiver_resp: { id: 0x8000_0001, fields: BIND_RESP, hasNoBodyOnError: true },
  bind_transmitter: { id: 0x02, fields: BIND },
  bind_transmitter_resp: { id: 0x8000_0002, fields: BIND_RESP, hasNoBodyOnError: true },
  submit_sm: { id: 0x04, fields: SHORT_MESSAGE },
  submit_sm_resp: { id: 0x8000_0004, fields: MESSAGE_ID, hasNoBodyOnError: true },
  deliver_sm: { id: 0x05, fields: SHORT_MESSAGE },
  deliver_sm_resp: { id: 0x8000_0005, fields: MESSAGE_ID },
  unbind: { id: 0x06, fields: [] },
  unbind_resp: { id: 0x8000_0006, fields: [] },
  bind_transceiver: { id: 0x09, fields: BIND },
  bind_transceiver_resp: { id: 0x8000_0009, fields: BIND_RESP, hasNoBodyOnError: true },
  outbind: {
    id: 0x0b,
    fields: [
      ['system_id', 'text'],
      ['password', 'text'],
    ],
  },
  enquire_link: { id: 0x15, fields: [] },
  enquire_link_resp: { id: 0x8000_0015, fields: [] },
  alert_notification: {
    id: 0x102,
    fields: [
      ['source_addr_ton', 'octet'],
      ['source_addr_npi', 'octet'],
      ['source_addr', 'text'],
      ['esme_addr_ton', 'octet'],
      ['esme_addr_npi', 'octet'],
      ['esme_addr', 'text'],
    ],
  },
  data_sm: { id: 0x103, fields: DATA },
  data_sm_resp: { id: 0x8000_0103, fields: MESSAGE_ID },
} as const satisfies Readonly<Record<string, Definition>>

export type Command = keyof typeof COMMANDS

export const definitionOf = (command: Command): Definition => COMMANDS[command]

const BY_ID: ReadonlyMap<number, Command> = new Map(
  Object.entries(COMMANDS).map(([command, { id }]) => [id, command as Command]),
)

/** Returns `null` for an unknown command. */
export const commandOf = (id: number): Command | null => BY_ID.get(id) ?? null

/** The octets of an integer. `text`: it ends with NUL. */
export type TlvKind = 1 | 2 | 4 | 'text' | 'octets'

export const TLVS = {
  dest_addr_subunit: { tag: 0x0005, kind: 1 },
  dest_network_type: { tag: 0x0006, kind: 1 },
  dest_bearer_type: { tag: 0x0007, kind: 1 },
  dest_telematics_id: { tag: 0x0008, kind: 2 },
  source_addr_subunit: { tag: 0x000d, kind: 1 },
  source_network_type: { tag: 0x000e, kind: 1 },
  source_bearer_type: { tag: 0x000f, kind: 1 },
  source_telematics_id: { tag: 0x0010, kind: 1 },
  qos_time_to_live: { tag: 0x0017, kind: 4 },
  payload_type: { tag: 0x0019, kind: 1 },
  additional_status_info_text: { tag: 0x001d, kind: 'text' },
  receipted_message_id: { tag: 0x001e, kind: 'text' },
  ms_msg_wait_facilities: { tag: 0x0030, kind: 1 },
  privacy_indicator: { tag: 0x0201, kind: 1 },
  source_subaddress: { tag: 0x0202, kind: 'octets' },
  dest_subaddress: { tag: 0x0203, kind: 'octets' },
  user_message_reference: { tag: 0x0204, kind: 2 },
  user_response_code: { tag: 0x0205, kind: 1 },
  source_port: { tag: 0x020a, kind: 2 },
  destination_port: { tag: 0x020b, kind: 2 },
  sar_msg_ref_num: { tag: 0x020c, kind: 2 },
  language_indicator: { tag: 0x020d, kind: 1 },
  sar_total_segments: { tag: 0x020e, kind: 1 },
  sar_segment_seqnum: { tag: 0x020f, kind: 1 },
  sc_interface_version: { tag: 0x0210, kind: 1 },
  callback_num_pres_ind: { tag: 0x0302, kind: 1 },
  callback_num_atag: { tag: 0x0303, kind: 'octets' },
  number_of_messages: { tag: 0x0304, kind: 1 },
  callback_num: { tag: 0x0381, kind: 'octets' },
  dpf_result: { tag: 0x0420, kind: 1 },
  set_dpf: { tag: 0x0421, kind: 1 },
  ms_availability_status: { tag: 0x0422, kind: 1 },
  network_error_code: { tag: 0x0423, kind: 'octets' },
  message_payload: { tag: 0x0424, kind: 'octets' },
  delivery_failure_reason: { tag: 0x0425, kind: 1 },
  more_messages_to_send: { tag: 0x0426, kind: 1 },
  message_state: { tag: 0x0427, kind: 1 },
  ussd_service_op: { tag: 0x0501, kind: 'octets' },
  display_time: { tag: 0x1201, kind: 1 },
  sms_signal: { tag: 0x1203, kind: 2 },
  ms_validity: { tag: 0x1204, kind: 1 },
  alert_on_message_delivery: { tag: 0x130c, kind: 'octets' },
  its_reply_type: { tag: 0x1380, kind: 1 },
  its_session_info: { tag: 0x1383, kind: 'octets' },
} as const satisfies Readonly<Record<string, { readonly tag: number; readonly kind: TlvKind }>>

export type TlvName = keyof typeof TLVS
/** The name of a mandatory field or of a TLV. */
export type FieldName = (typeof COMMANDS)[Command]['fields'][number][0] | TlvName

export const tlvOf = (name: string): { readonly tag: number; readonly kind: TlvKind } | null =>
  Object.hasOwn(TLVS, name) ? TLVS[name as TlvName] : null
