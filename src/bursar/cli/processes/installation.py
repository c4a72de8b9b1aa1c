"""Where this process is installed, if it runs in a pod."""

from pathlib import Path

from bursar.app.names import OWN_NAMESPACE, SERVICE_ACCOUNT_FOLDER


def own_namespace() -> str:
    """Namespace of the pod this process runs in; AAQ's own namespace outside of a pod."""
    try:
        named = Path(SERVICE_ACCOUNT_FOLDER, "namespace").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return OWN_NAMESPACE
    return named or OWN_NAMESPACE
