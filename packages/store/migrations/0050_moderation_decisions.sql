-- Who decided about a template or a sender last, and when: from the audit trail, for the pages of moderation.
CREATE INDEX audit_moderation ON command.audit (coalesce(arguments ->> 'template', arguments ->> 'sender'), place)
  WHERE outcome = 'done'
    AND command IN ('templates approve', 'templates decline', 'senders approve', 'senders decline');
