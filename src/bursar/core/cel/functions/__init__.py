"""The functions and operators of expressions, with the types that they take and return."""
