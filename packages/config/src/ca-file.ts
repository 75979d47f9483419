/** Settings that name a file with certificate authorities. */
import * as Config from 'effect/Config'
import { certificateFileConfig } from './pem-file.ts'
import type { Setting } from './setting.ts'

/**
 * Reads the PEM file of a setting at startup. `null`: use the default authorities. Node accepts any text as a list of
 * authorities and would then trust no certificate, so the file must have one.
 */
export const caFileConfig = (setting: Setting<string | null>): Config.Config<string | null> =>
  Config.map(certificateFileConfig(setting), (file) => file?.pem ?? null)
