/** Calls of an identity provider: `fetch` with a bound for the size of an answer. */

/** Metadata, keys and tokens have some kilobytes. */
const MAX_BYTES = 256 * 1024

/**
 * Reads the whole answer. Fails like a broken connection if it is longer than the bound. `options`: those of
 * `fetch`, with the timeout.
 */
export const boundedFetch = async (url: string, options: object): Promise<Response> => {
  const response = await fetch(url, options)
  if (response.body === null) return response
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  for await (const chunk of response.body) {
    bytes += chunk.length
    // Leaving the loop ends the connection.
    if (bytes > MAX_BYTES) throw new TypeError('the answer of the identity provider is too long')
    chunks.push(chunk)
  }
  const { headers, status, statusText } = response
  return new Response(Buffer.concat(chunks), { headers, status, statusText })
}
