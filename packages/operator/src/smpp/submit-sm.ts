/** The fields of a `submit_sm`. */
import type { Submission } from '../port.ts'
import type { Fields } from './pdu/index.ts'
import { isAlphanumeric, relativeTime, type Segment } from './text.ts'

/** Type of number and numbering plan. Source: SMPP 3.4, 5.2.5 and 5.2.6. */
const INTERNATIONAL = { ton: 1, npi: 1 } as const
const ALPHANUMERIC = { ton: 5, npi: 0 } as const
/** `registered_delivery`: request a receipt for the success or failure of each part. */
const FINAL_RECEIPT = 1

export const submitSmFields = (
  { sender, to }: Submission,
  segment: Segment,
  validitySeconds: number,
  numericSender: { readonly ton: number; readonly npi: number },
): Fields => {
  const source = isAlphanumeric(sender) ? ALPHANUMERIC : numericSender
  return {
    source_addr_ton: source.ton,
    source_addr_npi: source.npi,
    source_addr: sender.replace(/^\+(?=\d+$)/u, ''),
    dest_addr_ton: INTERNATIONAL.ton,
    dest_addr_npi: INTERNATIONAL.npi,
    destination_addr: to.replace(/^\+/u, ''),
    esm_class: segment.esmClass,
    validity_period: relativeTime(validitySeconds),
    registered_delivery: FINAL_RECEIPT,
    data_coding: segment.dataCoding,
    short_message: segment.shortMessage,
  }
}
