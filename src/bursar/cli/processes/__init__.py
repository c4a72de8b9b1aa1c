"""The verbs that run a process until it is told to end: controller, webhook, agent, up."""
