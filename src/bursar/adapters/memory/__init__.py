"""The embedded cluster: objects, revisions and watches in memory, behind the ports of `app`."""
