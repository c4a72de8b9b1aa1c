"""A sidecar that counts the pods of notebooks as `instances/notebook`."""

import sys

from bursar.sidecar import serve


def count(pod):
    if "notebook-name" in pod["metadata"].get("labels", {}):
        return {"instances/notebook": 1}
    return None


serve(count, *sys.argv[1:])  # the folder of the socket; /var/run/aaq-sockets without one
