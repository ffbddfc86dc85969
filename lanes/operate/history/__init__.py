"""Follow events, trace one message, read the audit trail."""
