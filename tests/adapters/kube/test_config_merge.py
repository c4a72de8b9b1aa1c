"""Random sets of kubeconfig files are merged as kubectl merges them."""

import json
import os
import subprocess
from random import Random

import msgspec
import pytest

from assets import ensure
from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.kube.kubeconfig.merge import choose
from support.builders.kubeconfigs import write
from support.until import PATIENCE_SECONDS

CASES = 60
NAMES = ["a", "b", "prod/eu", "user@c.example:443", "ü ö", "y", "null", "1", ""]
EMPTY = (None, "", False, [], {})


def some(rng, **fields):
    return {key: make() for key, make in fields.items() if rng.random() < 0.4}


def a_cluster(rng):
    return some(
        rng,
        **{
            "server": lambda: f"https://{rng.randrange(9)}.example:6443",
            "certificate-authority": lambda: rng.choice(["ca.crt", "/abs/ca.crt"]),
            "certificate-authority-data": lambda: "Zm9v",
            "insecure-skip-tls-verify": lambda: rng.random() < 0.5,
            "tls-server-name": lambda: "name",
            "proxy-url": lambda: "http://proxy",
            "disable-compression": lambda: True,
        },
    )


def a_user(rng):
    return some(
        rng,
        **{
            "token": lambda: f"token-{rng.randrange(9)}",
            "tokenFile": lambda: "x/token",
            "client-certificate": lambda: "me.crt",
            "client-key-data": lambda: "Zm9v",
            "username": lambda: "joe",
            "password": lambda: "secret",
            "as": lambda: "somebody",
            "as-groups": lambda: ["g", "h"],
            "as-user-extra": lambda: {"k": ["v", "w"]},
            "exec": lambda: {
                "command": "bin/x",
                "args": ["a"],
                "env": [{"name": "N", "value": "v"}],
                "apiVersion": "client.authentication.k8s.io/v1",
                "interactiveMode": "Never",
                "provideClusterInfo": True,
            },
        },
    )


def a_context(rng):
    return {
        "cluster": rng.choice(NAMES[:4]),
        "user": rng.choice(NAMES[:4]),
        **some(rng, namespace=lambda: f"ns-{rng.randrange(9)}"),
    }


def a_file(rng):
    def entries(kind, make):
        names = rng.sample(NAMES, rng.randrange(len(NAMES)))
        return [{"name": name, kind: make(rng)} for name in names]

    file = {
        "clusters": entries("cluster", a_cluster),
        "users": entries("user", a_user),
        "contexts": entries("context", a_context),
    }
    if rng.random() < 0.6:
        file["current-context"] = rng.choice(NAMES)
    return file


def without_empty(value):
    """Remove empty fields: upstream writes some of them and omits others."""
    if isinstance(value, dict):
        kept = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in EMPTY}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


def theirs(kubectl, paths):
    done = subprocess.run(
        [kubectl, "config", "view", "--raw", "--minify", "-o", "json"],
        env=os.environ | {"KUBECONFIG": ":".join(paths)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        return None
    view = json.loads(done.stdout)
    parts = {"name": view["current-context"]}
    for plural, kind in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
        parts[kind] = view[plural][0][kind] if view[plural] else {}
    # kubectl omits a user or cluster that does not exist; we refuse it.
    is_whole = bool(view["clusters"]) and bool(view["users"])
    return without_empty(parts) if is_whole else None


def ours(paths):
    try:
        choice = choose(paths, "")
    except ConfigError:
        return None
    parts = {"name": choice.name}
    for kind in ("context", "cluster", "user"):
        parts[kind] = msgspec.to_builtins(getattr(choice, kind).entry)
    return without_empty(parts)


@pytest.mark.usefixtures("control_plane")
def test_files_are_merged_as_kubectl_merges_them(tmp_path):
    rng = Random(20)  # noqa: S311 - not for secrets
    kubectl = str(ensure("kubectl"))
    whole = 0
    for case in range(CASES):
        paths = [
            write(tmp_path / f"{case}-{number}", a_file(rng)) for number in range(rng.randint(1, 4))
        ]
        if rng.random() < 0.3:
            paths.insert(rng.randrange(len(paths)), str(tmp_path / "missing"))
        expected = theirs(kubectl, paths)

        assert ours(paths) == expected, paths
        whole += expected is not None
    assert whole >= CASES // 3
