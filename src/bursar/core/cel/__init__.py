"""CEL, the expression language of ValidatingAdmissionPolicies, with a bound on cost.

It is a subset: an expression either means the same as in Kubernetes, or does not compile. There are
no doubles, unsigned integers, bytes and messages, because amounts are exact and pods have none.
"""
