"""Resizes of running pods: the questions of the webhook, and the record of promises."""
