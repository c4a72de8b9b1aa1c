"""The verbs that run until they are told to end: controller, webhook, operator, agent, up."""
