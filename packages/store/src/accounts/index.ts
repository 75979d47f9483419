/** Accounts, with their keys, senders and templates. */
export {
  insertAccount,
  insertApiKey,
  insertSender,
  insertTemplate,
  type NewApiKey,
  type StoredSender,
  type StoredTemplate,
  TEMPLATE_SENDER_FOREIGN_KEY,
} from './new.ts'
