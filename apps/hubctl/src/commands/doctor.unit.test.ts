import { assert, describe, it } from 'vitest'
import { screen } from './doctor.ts'

describe('the screen of hubctl doctor', () => {
  it('has a line for each finding, and a second line with the repair of a problem', () => {
    const none = { mend: null, facts: {} }
    assert.strictEqual(
      screen([
        { subject: 'Redis', verdict: 'ill', said: 'does\nnot answer', mend: 'Start it.', facts: {} },
        { subject: 'topics', verdict: 'well', said: 'all there', ...none },
        { subject: 'operator', verdict: 'note', said: 'none', ...none },
        { subject: 'stop flag', verdict: 'unknown', said: 'not known', ...none },
      ]),
      [
        '✗ Redis      does\\u000anot answer',
        '             → Start it.',
        '✓ topics     all there',
        '! operator   none',
        '? stop flag  not known',
      ].join('\n'),
    )
  })
})
