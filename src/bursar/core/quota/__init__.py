"""Who may use how much: quotas, the ledger of what is charged, and who waits for room."""
