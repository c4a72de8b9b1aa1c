"""The verbs about pods, nodes and quantities: describe and quantity."""
