"""Output that all verbs share: tables, documents, ages and durations."""
