"""The cluster as the rest of `app` uses it: ports, informers, the reconcile loop, patches."""
