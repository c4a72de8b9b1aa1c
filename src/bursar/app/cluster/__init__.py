"""What Bursar needs of a cluster, and what is built on that: informers, election, events."""
