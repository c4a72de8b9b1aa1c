"""The verbs about pods, nodes and quantities: describe, dump and quantity."""
