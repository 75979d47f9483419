/** The frame of the pages that the hub renders itself. They load nothing. */

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 0 auto; padding: 2rem 1rem 6rem }
section { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: 1rem 0 }
section:target { outline: 2px solid; outline-offset: .5rem; border-radius: .25rem }
section h2 { font-size: 1.1rem; margin: 0; font-family: ui-monospace, monospace }
dt { font-weight: 600; float: left; clear: left; width: 7rem }
dd { margin: 0 0 .25rem 7rem }
li { margin: .4rem 0 }
`

/** A page with this title. `body` is HTML. */
export const page = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} – SMS Delivery Hub</title>
<style>${STYLE}</style>
</head>
<body>
${body}
</body>
</html>
`
