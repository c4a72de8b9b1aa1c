"""Help pages and completion, from texts that `make pages` stores, so that they start fast."""
