/** Text of other people, for programs that obey parts of it: terminals and spreadsheets. */
export { csvLine } from './csv.ts'
export { onOneLine, printable } from './terminal.ts'
