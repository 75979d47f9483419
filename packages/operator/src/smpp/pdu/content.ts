/** The parts of a PDU: header, mandatory fields, TLVs. */

/** Texts have one character per octet (Latin-1), so that no octet is lost. */
export type Value = string | number | Uint8Array

export interface Tlv {
  readonly tag: number
  readonly octets: Uint8Array
}

export interface Content {
  /** `command_id` */
  readonly id: number
  /** `command_status`; 0 is success. */
  readonly status: number
  readonly sequence: number
  /** The values of the mandatory fields in order. A PDU that ends too early has the first ones. */
  readonly values: ReadonlyArray<Value>
  /** All TLVs in order, also unknown ones. */
  readonly tlvs: ReadonlyArray<Tlv>
  /**
   * What follows the last complete field or TLV, from the beginning of the broken one. Of an unknown
   * command, the whole body.
   */
  readonly rest: Uint8Array
}
