/** The sentences about a message that the operations API writes in English, in Russian. Sources: `entries.ts` and `timeline.ts` of packages/operations. */

const SENTENCES: Readonly<Record<string, string>> = {
  'The hub accepted the message.': 'Хаб принял сообщение.',
  'The SMS operator reported the delivery.': 'Оператор SMS сообщил о доставке.',
  'The SMS operator reported that it could not deliver the message.':
    'Оператор SMS сообщил, что не смог доставить сообщение.',
  'The SMS operator rejected the message.': 'Оператор SMS отклонил сообщение.',
  'The message expired.': 'Срок сообщения истёк.',
  'The SMS operator reported that it stopped trying.': 'Оператор SMS сообщил, что прекратил попытки.',
  'No report came until the deadline of the hub. The message may have arrived.':
    'До срока хаба отчёт не пришёл. Сообщение могло дойти.',
  'The lifetime ended before the hub could submit the message.':
    'Срок жизни закончился раньше, чем хаб смог отправить сообщение.',
  'The SMS operator refused the message for now, or nothing could be submitted. It is submitted again.':
    'Оператор SMS пока не принял сообщение, или отправить его не удалось. Оно отправляется снова.',
  'The outcome of the submit is unknown. The hub treats the message as sent.':
    'Результат отправки неизвестен. Хаб считает сообщение отправленным.',
  'The SMS operator took the message.': 'Оператор SMS принял сообщение.',
  'The SMS operator reported that the recipient read the message.':
    'Оператор SMS сообщил, что абонент прочитал сообщение.',
  'The lifetime ends: a message that is not submitted by then expires.':
    'Конец срока жизни: срок сообщения, не отправленного до этого времени, истекает.',
  'The deadline for the delivery report: without a report the message expires.':
    'Срок отчёта о доставке: без отчёта срок сообщения истекает.',
  'The SMS operator answered a submit. Its own words are among the raw records.':
    'Оператор SMS ответил на отправку. Его собственный ответ есть в исходных отчётах.',
  'The request id and the API key of the send': 'Id запроса и ключ API этой отправки',
  'Only the record of the acceptance in Kafka has them. It cannot be read now, or an older version of the hub or the reconciler wrote it.':
    'Они есть только в записи о приёме в Kafka. Её сейчас нельзя прочитать, или её записала прежняя версия хаба либо reconciler.',
  'Everything after the acceptance': 'Всё после приёма',
  'The projectors have not recorded the message yet. Look at the lag under stuck work.':
    'Процессы projector ещё не записали сообщение. Посмотрите на отставание на странице «Задержки».',
  'Handover claims, refusals, answers and reports': 'Отметки о передаче, отказы, ответы и отчёты',
  'Kafka did not answer in time. Try again.': 'Kafka не ответила вовремя. Повторите попытку.',
  'Handover claims and refusals': 'Отметки о передаче и отказы',
  'The lanes and the log have no record of this message any more. Kafka keeps them for 13 months.':
    'Записей об этом сообщении в Kafka больше нет: они хранятся 13 месяцев.',
  "The SMS operator's answers and reports": 'Ответы и отчёты оператора SMS',
  'The hub has none: they are kept for 90 days, and an operator need not send any.':
    'У хаба их нет: они хранятся 90 дней, и оператор может их не присылать.',
  'Webhook attempts': 'Попытки вебхуков',
  'The account has no webhook subscription in this mode now. Attempts of deleted ones are in hubctl deliveries.':
    'Сейчас у аккаунта нет подписки в этом режиме. Попытки удалённых подписок показывает hubctl deliveries.',
}

const TEMPLATES: ReadonlyArray<readonly [RegExp, string]> = [
  [
    /^The dispatcher recorded handover claim (.+), and then submitted the message\.$/u,
    'Процесс dispatcher записал отметку о передаче $1 и затем отправил сообщение.',
  ],
  [/^The SMS operator sent a delivery report: (.+)\.$/u, 'Оператор SMS прислал отчёт о доставке: $1.'],
  [/^The hub recorded the event (.+)\.$/u, 'Хаб записал событие $1.'],
  [/^Attempt (.+) to deliver (.+) succeeded: (.+)\.$/u, 'Попытка $1 доставить $2 удалась: $3.'],
  [/^Attempt (.+) to deliver (.+) \S+: (.+)\.$/u, 'Попытка $1 доставить $2 не удалась: $3.'],
]

/** A sentence of the API in Russian. A sentence that is not known stays in English. */
export const russianSentence = (text: string): string => {
  const [pattern, russian] = TEMPLATES.find(([one]) => one.test(text)) ?? []
  if (pattern !== undefined && russian !== undefined) return text.replace(pattern, russian)
  return SENTENCES[text] ?? text
}
