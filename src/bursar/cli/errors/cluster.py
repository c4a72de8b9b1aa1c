"""Errors of a cluster as a line for people: which cluster, why, and what to do next."""

import click

from bursar.app.cluster.ports import (
    BusyError,
    ClusterError,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    UntrustedServerError,
)


def cluster_error_text(place: str, error: ClusterError) -> str:
    """The line for an error. `place` names the server and the context."""
    what = error.message if isinstance(error, UnreachableError) else str(error)
    step = _next_step(error)
    return f"{place}: {what}; {step}" if step else f"{place}: {what}"


def _next_step(error: ClusterError) -> str:
    match error:
        case UntrustedServerError():
            return f"correct certificate-authority in the kubeconfig, or {another_cluster()}"
        case UnreachableError():
            return another_cluster()
        case UnauthorizedError():
            return f"the user of this context has to log in again; or {another_cluster()}"
        case ForbiddenError():
            return f"ask for this right, or {another_cluster()}"
        case NotFoundError() if error.key is None:
            return "bursar doctor says what is not installed"
        case BusyError() | UnavailableError():
            return "try again later"
        case _:
            return ""


def another_cluster() -> str:
    """How to read from somewhere else, by options that the running command has."""
    if has_option("kubeconfig"):
        cluster = "name another cluster with --context or --kubeconfig"
        return f"{cluster}, or read files with -f" if has_option("files") else cluster
    return "check that this cluster works"


def has_option(name: str) -> bool:
    """Whether the running command has an option whose value is passed under this name."""
    context = click.get_current_context(silent=True)
    return context is not None and any(each.name == name for each in context.command.params)
