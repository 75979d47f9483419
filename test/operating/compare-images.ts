/**
 * `npm run test:image`: builds the image twice with Buildah, each time from the beginning, and compares the digests.
 * It takes two minutes, so `npm test` compares only the parts that could differ.
 */
import { buildah } from './manifests/image-builder.ts'

const builder = await buildah()
if ('missing' in builder) {
  console.error(`The image cannot be built here: ${builder.missing}.`)
  process.exitCode = 1
} else {
  try {
    const digests = [await builder.digest(), await builder.digest()]
    console.log(digests.join('\n'))
    if (new Set(digests).size > 1) {
      console.error('The two builds differ.')
      process.exitCode = 1
    }
  } finally {
    await builder.remove()
  }
}
