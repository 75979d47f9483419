/** Rows above and below the window that are rendered too, so that scrolling shows no gap. */
const MARGIN_ROWS = 30

interface View {
  readonly rows: number
  /** Pixels. All rows have the same height. */
  readonly rowHeight: number
  /** Where the first row begins, in pixels from the top of the window. Negative after scrolling. */
  readonly top: number
  readonly viewHeight: number
}

/** Returns the rows to render: `from` (inclusive) to `until` (exclusive). */
export const visibleRange = ({
  rowHeight,
  rows,
  top,
  viewHeight,
}: View): { readonly from: number; readonly until: number } => {
  const first = Math.floor(-top / rowHeight)
  const last = Math.ceil((viewHeight - top) / rowHeight)
  const within = (row: number): number => Math.min(rows, Math.max(0, row))
  return { from: within(first - MARGIN_ROWS), until: within(last + MARGIN_ROWS) }
}
