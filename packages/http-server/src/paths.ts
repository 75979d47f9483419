/** Paths and methods of requests. */
import { Layer } from 'effect'
import { HttpRouter } from 'effect/http'

/** Paths match exactly: another case, a double slash or a trailing slash makes another path. */
export const exactPaths = Layer.succeed(HttpRouter.RouterConfig)({
  caseSensitive: true,
  ignoreDuplicateSlashes: false,
  ignoreTrailingSlash: false,
})

/** The parts of a request target before and behind the first `?`. */
export const splitUrl = (url: string): { readonly path: string; readonly query: string } => {
  const mark = url.indexOf('?')
  return mark < 0 ? { path: url, query: '' } : { path: url.slice(0, mark), query: url.slice(mark + 1) }
}

/** The value of `Allow` for a path with these methods. Each path with `GET` also supports `HEAD`. */
export const allowOf = (methods: ReadonlyArray<string>): string =>
  methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
