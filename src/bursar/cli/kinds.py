"""Kinds as kubectl takes them: `pods`, `po` and `pod/NAME` for a subcommand `pod`."""

from typing import Final

import click

from bursar.cli.verbs import Verbs

KINDS: Final = (
    ("pod", "pods", "po"),
    ("node", "nodes", "no"),
    ("namespace", "namespaces", "ns"),
    (
        *("quota", "quotas", "resourcequota", "resourcequotas"),
        *("arq", "arqs", "applicationawareresourcequota", "applicationawareresourcequotas"),
        *("acrq", "acrqs"),
        *("applicationawareclusterresourcequota", "applicationawareclusterresourcequotas"),
    ),
    ("peerpod", "peerpods"),
    ("device", "devices"),
    ("licence", "licences", "clusterresource", "clusterresources"),
)
"""Names of one kind: singular, plural, short names, and other kinds that the command reads too."""
WORKLOADS: Final = frozenset(
    {"cj", "cronjob", "cronjobs", "daemonset", "daemonsets", "deploy", "deployment", "deployments"}
    | {"ds", "job", "jobs", "replicaset", "replicasets", "rs", "statefulset", "statefulsets", "sts"}
)
"""Kinds whose objects are shown as pods."""


class KindNames(Verbs):
    """A group whose subcommands are kinds of objects. A subcommand is found by any of its names."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        # kubectl also takes the API group: pods.v1, applicationawareresourcequotas.aaq.kubevirt.io.
        kind = cmd_name.lower().partition(".")[0]
        for names in KINDS:
            if kind in names:
                for name in names:
                    found = super().get_command(ctx, name)
                    if found is not None:
                        return found
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        kind, slash, name = args[0].partition("/")
        found = self.get_command(ctx, kind)
        if found is None and kind.lower().partition(".")[0] in WORKLOADS:
            # Only a mistake needs the command for pods; importing it takes long.
            pods = self.get_command(ctx, "pod")
            if pods is not None:
                raise click.UsageError(
                    f"{kind!r} is shown as pods; did you mean '{ctx.command_path} {pods.name}'?",
                    ctx,
                )
        if found is not None and found.name is not None and (name or not slash):
            # The command's own name, so that errors and help do not show the short one.
            args = [found.name, *([name] if name else []), *args[1:]]
        return super().resolve_command(ctx, args)
