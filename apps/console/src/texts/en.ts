/** All texts of the console in English. Another language is another object of the same type: see `ru.ts`. */
import { countOf } from '../format/plural.ts'

/** A number with the word that fits it: `1 row`, `2 rows`. */
const count = countOf('en')

export const en = {
  product: 'SMS Delivery Hub',
  loading: 'Loading …',
  none: 'none',
  any: 'any',
  more: 'Show more',
  searchOn: 'Search older messages',
  searchedUntil: 'Searched back to',
  retry: 'Try again',
  reload: 'Reload',
  cancel: 'Cancel',
  close: 'Close',
  menu: 'Menu',
  language: 'Language',
  copy: 'Copy',
  copyText: (text: string) => `Copy ${text}`,
  copied: 'Copied.',
  notCopied: 'Not copied: the browser does not permit it.',
  skip: 'Go to the content',
  signOut: 'Sign out',
  droppedRows: (rows: number) =>
    `The first ${count(rows, { one: 'row', other: 'rows' })} are not on this page any more.`,
  beginAgain: 'Begin again',
  endOfList: (rows: number) => `End of the list (${rows}).`,
  csv: 'Download as CSV',

  /** Units of durations. */
  units: { ms: 'ms', s: 's', min: 'min', h: 'h', d: 'd' },

  /** Codes of the API that need other words than their own. */
  words: {} as Readonly<Record<string, string>>,

  roles: {
    viewer: 'viewer',
    support: 'support',
    moderator: 'moderator',
    operator: 'operator',
    admin: 'admin',
  } as Readonly<Record<string, string>>,

  /** A sentence that the API wrote. */
  sentence: (text: string) => text,

  navigation: {
    title: 'Pages',
    start: 'Start',
    messages: 'Messages',
    moderation: 'Moderation',
    webhooks: 'Webhooks',
    stuck: 'Stuck work',
    accounts: 'Accounts',
    usage: 'Usage',
    optOuts: 'Opt-outs and erasure',
    audit: 'Audit trail',
  },

  theme: { label: 'Theme', system: 'system', light: 'light', dark: 'dark' },

  help: {
    open: 'Help',
    title: 'Keyboard and times',
    search: 'Search',
    help: 'This help',
    on: ' Keyboard shortcuts are on',
    times: 'Times are in the time zone of this device. Point at a time to see it in UTC.',
  },

  signIn: {
    title: 'Sign in',
    about: 'The console shows messages, moderation and webhooks of the hub to hub staff.',
    action: 'Sign in',
    local: 'With a hub on your own machine, open the link that npm start printed.',
    expired: 'Your session has ended',
    expiredAbout:
      'Sign in again to return to this page. A session ends after 30 minutes without use, and after 12 hours.',
  },

  failures: {
    unavailable: {
      title: 'The API does not answer.',
      advice:
        'Check your network, and try again. If others see this too, tell the operators on call: the process is operations-api.',
    },
    forbidden: {
      title: 'Your role does not permit this.',
      advice: (roles: ReadonlyArray<string>) =>
        roles.length === 0
          ? 'Ask an administrator.'
          : `Ask an administrator for one of these roles: ${roles.join(', ')}.`,
    },
    refused: { title: 'The hub refused this.' },
    request: 'For a question to the developers:',
  },

  notFound: {
    title: 'There is no such page',
    text: 'The address is wrong or incomplete. Use the navigation or the search.',
  },

  confirm: { typeName: 'To confirm, type' },

  filters: {
    title: 'Filters',
    apply: 'Apply',
    clear: 'Clear filters',
    copy: 'Copy link',
    account: 'name or acc_…',
    after: 'After',
    before: 'Before',
  },

  columns: {
    account: 'Account',
    batch: 'Batch',
    class: 'Class',
    clientRef: 'client_ref',
    created: 'Created',
    id: 'Id',
    message: 'Message',
    mode: 'Mode',
    name: 'Name',
    reason: 'Reason',
    registration: 'Registration',
    sender: 'Sender',
    status: 'Status',
    template: 'Template',
    text: 'Text',
    type: 'Type',
    waiting: 'Age',
  },

  charts: {
    sent: 'sent',
    delivered: 'delivered',
    failed: 'failed',
    minute: 'Minute',
    perMinute: 'messages per minute',
    lastHour: 'last hour',
    sinceFirst: 'time since the first step, logarithmic',
    numbers: 'Show the numbers',
    traffic: (label: string) => `${label}: messages per minute in the last hour`,
    timeline: (steps: number, duration: string) =>
      `${count(steps, { one: 'step', other: 'steps' })} in ${duration}. The list below has the same steps.`,
    logarithmic:
      'The distance between two steps grows with the logarithm of the time between them. Point at a step to see it.',
  },

  performers: {
    'command-api': 'command-api',
    dispatcher: 'dispatcher',
    operator: 'SMS operator',
    projector: 'projector',
    'webhook-fanout': 'webhook-fanout',
  },

  search: {
    title: 'Search',
    titleOf: (text: string) => `Search: ${text}`,
    label: 'Search',
    placeholder: 'Search: id, client_ref, or +79…  ( / )',
    results: 'Results',
    byHash: 'Link to these results, with the recipient hash instead of the number',
    numberNote: 'You searched for a phone number. The address of this page does not contain it.',
    empty:
      'Enter an id (msg_…, bat_…, evt_…, evb_…, req_…), a client_ref, the id of a message at the SMS operator, or a phone number (+79…).',
  },

  messages: {
    title: 'Messages',
    empty:
      'There are no messages yet. Send one with a test key: the README of the hub has a command to paste.',
    emptyFilter: 'No message passes these filters. Remove a filter, or choose a longer time.',
  },

  message: {
    title: 'Message',
    timeline: 'Timeline',
    rawFacts: 'Raw facts',
    trace: 'Trace:',
    by: (who: string) => `by ${who}`,
    noEntries: 'The hub has no entries about this message yet. Reload the page in some seconds.',
    missing: 'Not shown',
    changed: 'Changed',
    parts: 'Parts',
    attempts: 'Submits',
    price: 'Price',
    recipient: 'Recipient',
    sameRecipient: 'Other messages to this recipient',
    number: 'Number',
    variables: 'Variables',
    reason: 'Reason or ticket',
    reasonHint: 'It is recorded in the audit trail with your name. It must not contain a phone number.',
    reveal: 'Reveal number and text',
    revealAbout: 'Shows the phone number and the text of this message until you leave the page.',
    revealed: 'Personal data',
    openRecords: 'Open raw reports',
    recordsAbout:
      'Shows what the SMS operator sent about this message in the last 90 days. It can contain the phone number and the text.',
    records: 'Answers and reports of the SMS operator',
    noRecords:
      'There are none. The hub keeps them for 90 days. A message without an answer of the SMS operator has none.',
    recordGone: 'Its key is destroyed, so it cannot be read any more.',
    notPermitted: 'The number and the text are hidden. The role support may reveal them.',
  },

  moderation: {
    title: 'Moderation',
    kinds: 'Kinds of items',
    templates: 'Templates',
    senders: 'Senders',
    queueNote: 'Live items that wait for a decision, the oldest first. Choose a status to see others.',
    emptyQueue: 'Nothing waits for a decision. Choose a status to see earlier decisions.',
    emptyFilter: 'No item passes these filters. Remove a filter.',
    back: 'Back to the queue',
    approve: 'Approve',
    decline: 'Decline',
    approveTitle: (name: string) => `Approve ${name}`,
    declineTitle: (name: string) => `Decline ${name}`,
    approveAbout: {
      templates:
        'Messages can be sent with this template as soon as its sender is registered. The client gets an event.',
      senders: 'Approved templates of this sender can be used. The client gets an event.',
    },
    declineAbout: {
      templates: 'No message can be sent with this template. The client gets an event with your comment.',
      senders: 'No template of this sender can be used. The client gets an event with your comment.',
    },
    comment: 'Comment for the client',
    commentHint: 'Say what to change. The client sees this text, and can submit the item again.',
    decided: 'Decided',
    language: 'Language',
    text: 'Text',
    preview: 'Preview with example values',
    noPreview: 'The text cannot be rendered. Sends with this template would fail.',
    parts: (parts: number, characters: number, encoding: string) =>
      `${count(parts, { one: 'part', other: 'parts' })}, ${count(characters, { one: 'character', other: 'characters' })}, ${encoding}`,
    registration: 'Registration',
    noRegistration:
      'The client gave no data for the registration. If the operator needs them, decline the sender with a comment.',
    notPermitted: 'The role moderator may approve and decline.',
  },

  webhooks: {
    title: 'Webhooks',
    empty: 'No account has a webhook subscription. Clients create them with POST /v1/webhook_endpoints.',
    emptyFilter: 'No subscription passes these filters. Remove a filter.',
    endpoint: 'Endpoint',
    failures: 'Failures in a row',
    backlog: 'Waiting batches',
    oldest: 'Oldest waits',
    types: 'Event types',
    allTypes: 'all',
    disabled: 'Disabled',
    disabledReason: 'Last failure',
    headers: 'Headers',
    certificateUntil: 'Client certificate until',
    enable: 'Enable',
    enableAbout:
      'The subscription receives events again after some seconds. Waiting events of the last 24 hours are delivered.',
    test: 'Send a test delivery',
    testAbout: (url: string) => `Sends an event of type webhook.test to ${url} now, and shows the answer.`,
    redeliver: 'Deliver a period again',
    redeliverAbout:
      'The receiver gets all events of the period once more, with their original ids. This does not affect the health of the subscription.',
    until: 'Before (empty: now)',
    queued: (id: string) => `The redelivery is queued: ${id}. Its batches appear among the attempts.`,
    attempts: 'Attempts',
    attempt: 'Attempt',
    number: 'Number',
    code: 'Answer',
    duration: 'Duration',
    event: 'Event',
    events: 'Events',
    batch: 'Webhook batch',
    origin: 'Origin',
    origins: { schedule: 'schedule', trial: 'test delivery', resend: 'resend', redelivery: 'redelivery' },
    next: 'Next attempt',
    noAttempts: 'There was no attempt yet. Send a test delivery, or wait for the next event of the account.',
    noAttemptsFilter: 'No attempt passes these filters. Remove a filter, or choose a longer time.',
    back: 'Back to the subscription',
    resend: 'Send again',
    resendAbout:
      'Sends the batch of this attempt again now, with the same events and the same Hub-Event-Id, and shows the answer. It does not count as a failure.',
    resendEvent: 'Send only this event',
    resendEventAbout:
      'The receiver gets exactly this event once more, with its original id, in a batch of its own with a new Hub-Event-Id. It does not count as a failure.',
    eventQueued: 'The event is queued. Its attempt appears among the attempts of the subscription.',
    outcome: (code: number | null, reason: string, duration: string) =>
      `The receiver answered ${code ?? 'nothing'}${reason === '' ? '' : ` (${reason})`} after ${duration}.`,
    openAttempt: 'Open the attempt',
    body: 'Signed body',
    bodyAbout: 'The bytes under the signature in Hub-Signature.',
    noBody: 'The body is not stored: it was a test delivery, or its events are older than three years.',
    exact: 'Exact bytes',
    copyBody: 'Copy the exact bytes',
  },

  start: {
    title: 'Overview',
    at: 'As of',
    disconnected:
      'The connection for live values is interrupted. The page connects again by itself; the values are old until then.',
    unavailable: (parts: string) =>
      `These values could not be read, and are old: ${parts}. Look at stuck work, and tell the operators on call.`,
    hub: 'Hub',
    stopped: 'stopped',
    until: 'until',
    waiting: 'Messages that wait for the SMS operator',
    nothingWaits: 'nothing waits',
    oldest: 'the oldest for',
    unanswered: 'Sent without an answer (24 hours)',
    unansweredOf: (sent: string, expired: string) => `${sent} wait for a report, ${expired} expired`,
    lag: 'Lag of the consumers',
    records: (records: number) => count(records, { one: 'record', other: 'records' }),
    noMember: (apps: string) => `no process runs: ${apps}`,
    operators: 'Binds of the SMS operators',
    binds: (established: number, wanted: number) => `${established} of ${wanted}`,
    noBinds: 'no binds',
    pace: (operator: string, passed: string, limit: string | null) =>
      limit === null ? `${operator} ${passed} parts/s` : `${operator} ${passed} of ${limit} parts/s`,
    noReport: 'no dispatcher reports',
    failing: 'Failing webhook subscriptions',
    endpoints: (failing: number, disabled: number, enabled: number) =>
      `${failing} failing, ${disabled} disabled, ${enabled} enabled`,
    templates: 'Templates in moderation',
    senders: 'Senders in moderation',
    classOf: (messageClass: string): string => (messageClass === 'otp' ? 'Codes (otp)' : 'Service messages'),
    noTimes: 'No message was accepted in the last five minutes.',
    times: (p50: string, p99: string, messages: string) =>
      `From acceptance to submit in the last five minutes: p50 ${p50}, p99 ${p99} (${messages} messages).`,
    openHour: 'Messages of the last hour',
  },

  stuck: {
    title: 'Stuck work',
    consumers: 'Consumers',
    consumer: 'Consumer',
    members: 'Processes',
    lag: 'Lag',
    shards: 'Shards with the largest lag',
    unknown: 'Unknown: Kafka did not answer. Reload the page, and look at the checks below.',
    oldestOpen: 'Oldest open messages',
    noneOpen: 'Every message has a final status: there is nothing to do.',
    operators: 'SMS operators',
    operator: 'Operator',
    noOperator:
      'No dispatcher has reported in the last 20 seconds. Look at the consumers above: a dispatcher must run.',
    binds: 'Binds',
    bindsOf: (role: string, established: number, wanted: number) => `${role} ${established} of ${wanted}`,
    noBinds: 'has none',
    rate: 'Limit, parts/s',
    noRate: 'none known',
    configured: (rate: string) => `(configured ${rate})`,
    passed: 'Answered, parts/s',
    throttled: 'Throttled, parts/s',
    incomplete: 'Missing since',
    missingBinds: (dispatcher: string, role: string, established: number, wanted: number) =>
      `${dispatcher}: ${role} ${established} of ${wanted}`,
    checks: 'Checks',
    checking: 'The checks take some seconds.',
    checkAgain: 'Check again',
    subject: 'Subject',
    verdict: 'Verdict',
    finding: 'Finding',
    repair: 'Repair',
    outboxes: 'Outboxes',
    content: 'Content',
    rows: 'Rows',
    oldest: 'Oldest',
    noOutbox: 'Nothing waits in an outbox: there is nothing to do.',
    endpoints: 'Webhook subscriptions with failures',
    noEndpoint: 'No subscription fails: there is nothing to do.',
    topic: 'Topic',
    records: 'Records',
    moderation: (templates: number, senders: number) =>
      `Moderation: ${count(templates, { one: 'template', other: 'templates' })}, ${count(senders, { one: 'sender', other: 'senders' })} in the queue`,
  },

  deadLetters: {
    title: 'Dead letters',
    empty: 'There are no dead letters. A consumer writes one when it cannot read or apply a record.',
    open: 'All dead letters',
    at: 'Written',
    letter: 'Dead letter',
    source: 'Source',
    handled: 'Handled',
    back: 'Back to the dead letters',
    retry: 'Retry',
    retryAbout:
      'Appends the record to its source topic again. Do it after the repair of the fault. Consumers drop records that they have applied.',
    drop: 'Drop',
    dropAbout: 'Marks the dead letter as dropped: nobody retries it. Kafka keeps the record for 90 days.',
    reason: 'Why it needs no retry',
    content: 'Record',
  },

  accounts: {
    title: 'Accounts',
    empty: 'There are no accounts. hubctl accounts create makes one.',
    liveKeys: 'Live keys',
    testKeys: 'Test keys',
    certification: 'Certification',
    certified: 'certified',
    notCertified: 'not certified',
    limits: 'Limits and prices',
    limitsNote: 'A star marks a value that differs from the default.',
    change: 'Change',
    changeMode: (mode: string) => `Change ${mode} settings`,
    changeAbout:
      'The hub applies changes within seconds. Accepted messages keep their price. An empty field means the default, which the field shows in grey.',
    overridden: 'differs from the default',
    setting: 'Setting',
    keys: 'API keys',
    key: 'Key',
    lastFour: 'Ends with',
    lastUsed: 'Last used',
    networks: 'Allowed from',
    anywhere: 'anywhere',
    nowhere: 'nowhere',
    scopes: 'Scopes',
    scopesField: 'The key may',
    scopeNames: {
      send: 'send: messages and batches',
      read: 'read: everything that it can see',
      manage: 'manage: templates, senders, webhook subscriptions',
    },
    expires: 'Expires',
    ends: 'Works until',
    noKeys: (id: string) => `The account has no keys. hubctl keys issue ${id} issues one, too.`,
    issue: 'Issue a key',
    issueAbout:
      'Test keys send to the sandbox. A live key sends to real recipients, and requires a certified account. If this hub needs two persons for a live key, another one must confirm.',
    networksField: 'Allowed addresses or networks, separated by commas (empty: anywhere)',
    daysField: 'Stops working after so many days (empty: never)',
    sameDaysField: 'The new key stops working after so many days (empty: as long as the old one)',
    rotate: 'Rotate',
    rotateAbout: (mode: string, lastFour: string) =>
      `Issues another ${mode} key for the same networks and scopes, and shows it once. The key that ends with ${lastFour} works for some hours more, so that the client can replace it. If a process continues to use it, its address is blocked after 21 failures in a minute, also for the new key.`,
    overlapField: 'The old key works for so many hours more (0: it ends now)',
    oldEnds: 'The old key ends',
    changeNetworks: 'Networks',
    changeNetworksAbout: (mode: string, lastFour: string) =>
      `Requests with the ${mode} key that ends with ${lastFour} from other addresses fail like those with an invalid key. A change takes effect within seconds.`,
    changedNetworksField: 'Allowed addresses or networks, separated by commas',
    fromAnywhere: 'Allow any address',
    issued: 'The new key',
    issuedAbout: 'Store the key now: it is not shown again.',
    revoke: 'Revoke',
    revokeAbout: (mode: string, lastFour: string) =>
      `The ${mode} key that ends with ${lastFour} stops working within seconds, and cannot be restored. Messages accepted with it are sent.`,
    keyRequests: 'Requested live keys',
    confirmKey: 'Issue the live key',
    confirmKeyAbout: (by: string) =>
      `${by} requested this live key. It is shown to you once: give it to the client. Who requested it cannot confirm it.`,
    confirmReplacesAbout: (replaced: string, time: string) =>
      `It replaces ${replaced}, which then ends after ${time}.`,
    replaces: 'Replaces',
    certify: 'Certify',
    certifyAbout: 'The account may then have live keys. Confirm what the hub cannot observe.',
    withdraw: 'Withdraw the certification',
    withdrawAbout: 'The account gets no further live keys. Its existing live keys continue to work.',
    point: 'Point',
    wanted: 'What is required',
    pointBy: 'Known by',
    pointsBy: { seen: 'the hub', confirmed: 'a person' },
    performance: (days: number) => `Templates in the last ${days} days`,
    noMessages:
      'The account has sent no message in this time and mode. Choose the other mode above, or look at the keys: a key that nobody has used is not in a client yet.',
    accepted: 'accepted',
    failureRate: 'Failure rate',
    sent50: 'Sent p50',
    sent99: 'Sent p99',
    delivered50: 'Delivered p50',
    delivered99: 'Delivered p99',
    spend: (period: string) => `Spend ${period}`,
    told: '(above the soft limit)',
    resetSpend: 'Reset the spend',
    resetSpendAbout:
      'The spend limit counts from now, so the account can send again at once. The charges for invoices stay. Clients get no further event account.spend_threshold this month. It cannot be undone.',
    lists: 'Lists',
  },

  hub: {
    title: 'Hub',
    /** Typed to confirm the stop. */
    name: 'hub',
    accepts: 'accepts messages',
    limit: 'Daily limit',
    today: 'Accepted today (UTC)',
    aboveLimit: (accepted: string, above: string) => `${accepted}, ${above} above the limit`,
    unknown: 'unknown: Redis does not answer',
    stop: 'Stop the hub',
    stopAbout:
      'The hub refuses the new messages of all accounts for some time. Accepted messages are sent. Use it only for an emergency.',
    minutes: 'For so many minutes',
    resume: 'End the stop',
    resumeAbout: 'The hub accepts messages again within seconds.',
  },

  usage: {
    title: 'Usage',
    titleOf: (month: string) => `Usage ${month}`,
    month: 'Month (UTC)',
    day: 'Day (UTC)',
    byDay: (month: string) => `Spend by day ${month}`,
    charged: 'Charged',
    returned: 'Returned',
    empty: 'No message was charged in this month. Test messages are free. Choose another month.',
  },

  people: {
    kinds: 'Requests of recipients',
    optOuts: 'Opt-outs',
    erasures: 'Erasures',
    about: 'An opted-out number gets no service messages from any account. Codes are not affected.',
    recipient: 'Phone number, hash or receipt',
    check: 'Check',
    isOptedOut: 'Opted out',
    isNotOptedOut: 'Not opted out',
    hash: 'Recipient hash',
    history: 'History',
    noHistory:
      'The hub has no record of an opt-out of this recipient: service messages reach it. Opt it out only at its request.',
    at: 'Time',
    change: 'Change',
    source: 'Source',
    sources: {
      inbound: 'a word of the recipient',
      operator: 'hub staff',
      import: 'a list of numbers',
    } as Readonly<Record<string, string>>,
    word: 'Word',
    actor: 'Person',
    add: 'Opt out',
    addAbout:
      'Records an opt-out at the request of the recipient. Accounts that wrote to the number get an event.',
    lift: 'Lift the opt-out',
    liftAbout:
      'The number gets service messages again. Do it only at the request of the recipient: otherwise an opt-out is permanent.',
    list: 'All opt-outs',
    empty: 'Nobody is opted out. Enter a number above to record an opt-out.',
    emptyFilter: 'No opt-out passes these filters. Remove a filter.',
    eraseAbout:
      'An erasure removes the number and the texts of a recipient from all stores. It cannot be undone. The receipt proves it.',
    erase: 'Erase a recipient',
    eraseDialog:
      'Numbers and texts of this recipient become unreadable at once, and encrypted copies within 50 hours. An opt-out stays. If this hub needs two persons, another one must confirm.',
    eraseName: 'erase',
    waitsForSecond: 'The request is recorded. Another person must confirm it within a week.',
    receipt: 'Receipt',
    receiptAbout: 'Keep this document as the proof of the erasure.',
    requested: 'Requested',
    sealedUntil: 'Copies readable until',
    requests: 'Requests',
    confirm: 'Confirm',
    confirmAbout: (by: string) =>
      `${by} requested this erasure. It removes the number and the texts of the recipient, and cannot be undone. Who requested it cannot confirm it.`,
    confirmed: 'Confirmed',
    action: 'Action',
    noRequests: 'There are no requests. With one person, an erasure happens at once and has only a receipt.',
  },

  audit: {
    title: 'Audit trail',
    at: 'Time',
    actor: 'Person',
    role: 'Role',
    operation: 'Operation',
    values: 'Values',
    outcome: 'Outcome',
    detail: 'Result',
    empty: 'Nothing has been recorded yet. The first change in the console or with hubctl appears here.',
    emptyFilter: 'No line passes these filters. Remove a filter.',
  },
}

export type Strings = typeof en
