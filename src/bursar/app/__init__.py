"""Use cases: what Bursar's processes and commands do, behind ports, without a technology."""
