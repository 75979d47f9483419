/** The kinds of work of admission control, the most urgent one first. `otp` and `service` are single sends. */
export const WORK_KINDS = ['otp', 'service', 'batch'] as const
export type WorkKind = (typeof WORK_KINDS)[number]
