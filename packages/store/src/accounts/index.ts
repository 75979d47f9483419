/** Accounts and what they may use. */
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
