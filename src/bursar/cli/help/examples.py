"""The examples that `--help` and the manual page show, for every command.

To give a command examples, add its names to `EXAMPLES`; nothing else is needed. A test demands
one for each command, and runs those that need neither a cluster nor other input. Their files are
those of `examples/`, which `bursar examples copy examples` copies into the current folder.
"""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "agent": (
        "bursar agent --node node-a",
        "bursar agent --node node-a --disk",
    ),
    "agent quota-check": ("bursar agent quota-check /var/lib/kubelet",),
    "capacity": ("bursar capacity get",),
    "capacity get": (
        "bursar capacity get -l pool=gpu -w",
        "bursar capacity get node-a -o json",
    ),
    "capacity set": (
        "bursar capacity set node-a example.com/dongle=4",
        "bursar capacity set -l pool=gpu example.com/dongle=4",
    ),
    "capacity unset": ("bursar capacity unset node-a example.com/dongle",),
    "completion": ("bursar completion bash",),
    "controller": (
        "bursar controller",
        "bursar controller --kubeconfig ~/.kube/config --context staging",
    ),
    "describe": (
        "bursar describe pod -f examples/frontend.yaml",
        "bursar describe node -f examples/node-pool.yaml",
        "bursar describe quota -f examples/queue",
    ),
    "describe node": (
        "bursar describe node -f examples/node-pool.yaml",
        "bursar describe node worker-1",
        "bursar describe nodes -l pool=gpu -o wide --sort-by memory",
        "kubectl get nodes,pods -A -o json | bursar describe node -f -",
    ),
    "describe pod": (
        "bursar describe pod -f examples/frontend.yaml",
        "bursar describe pod web-0 -n shop",
        "bursar describe pods -A --sort-by -cpu -o wide",
        "helm template ./chart | bursar describe pod -f -",
    ),
    "describe quota": (
        "bursar describe quota -f examples/queue",
        "bursar describe quota compute -n shop",
        "bursar describe quotas -A -o wide --sort-by -fullest",
    ),
    "devices": (
        "bursar devices -f examples/devices",
        "bursar devices --node node-a",
        "bursar devices -A --check",
    ),
    "doctor": ("bursar doctor", "bursar doctor -n aaq -o wide"),
    "dump": (
        "bursar dump > cluster.yaml",
        "bursar dump --for explain -n shop --anonymize > report.yaml",
        "bursar dump -f examples/queue",
    ),
    "examples": ("bursar examples", "bursar examples copy examples"),
    "examples copy": (
        "bursar examples copy examples",
        "bursar examples copy frontend.yaml queue /tmp/bursar-examples",
    ),
    "examples list": ("bursar examples list",),
    "explain": ("bursar explain pod -f examples/cluster",),
    "explain pod": (
        "bursar explain pod web-0 -n shop",
        "bursar explain pod -A",
        "bursar explain pod -f examples/cluster -o wide",
        "kubectl get nodes,pods,ns -A -o yaml | bursar explain pod web-0 -f -",
    ),
    "extender": ("bursar extender --tls-dir /etc/bursar/tls",),
    "man": ("bursar man", "bursar man > bursar.1 && man ./bursar.1"),
    "manifests": (
        "bursar manifests",
        "bursar manifests crds",
        "bursar manifests crds rbac controller policies --image=registry/bursar:tag",
    ),
    "migrate": ("bursar migrate aaq --check", "bursar migrate resourcequotas"),
    "migrate aaq": (
        "bursar migrate aaq --check",
        "bursar manifests | bursar migrate aaq --apply -f -",
    ),
    "migrate resourcequotas": (
        "bursar migrate resourcequotas",
        "bursar migrate resourcequotas -n shop --apply",
    ),
    "operator": ("bursar operator",),
    "peerpod": (
        "bursar peerpod rewrite -f examples/peerpods/pod.yaml",
        "bursar peerpod instance --vcpus 4 --memory 6Gi",
    ),
    "peerpod instance": (
        "bursar peerpod instance --vcpus 4 --memory 6Gi",
        "bursar peerpod instance -f examples/peerpods/pod.yaml",
    ),
    "peerpod rewrite": (
        "bursar peerpod rewrite -f examples/peerpods/pod.yaml",
        "bursar peerpod rewrite -f examples/peerpods/pod.yaml -o patch",
    ),
    "policy": ("bursar policy check -f examples/policies",),
    "policy check": (
        "bursar policy check -f examples/policies",
        "bursar policy check -A -l app=notebook",
        "bursar policy check -f examples/policies --at 2026-11-14T12:00:00Z",
    ),
    "quantity": (
        "bursar quantity 1Gi 1500m 0.1",
        "bursar quantity --compare 1Gi 1G",
        "bursar quantity --sum 1Gi 512Mi",
    ),
    "queue": (
        "bursar queue -f examples/queue",
        "bursar queue -n shop -o wide",
        "bursar queue -A --sort-by=-age -w",
    ),
    "release": (
        "bursar release web-0 -n shop",
        "bursar release --all --stop-gating",
    ),
    "scheduler-config": (
        "bursar scheduler-config -f examples/licences",
        "bursar scheduler-config --resource example.com/licence",
    ),
    "top": (
        "bursar top nodes -f examples/capacity",
        "bursar top pods -A --group-by owner --sort-by -cpu",
        "bursar top quotas -A --sort-by -percent",
    ),
    "top devices": (
        "bursar top devices -f examples/capacity -o wide",
        "bursar top devices --resource nvidia.com/gpu --sort-by -free",
        "bursar top devices --group-by resource",
    ),
    "top disk": ("bursar top disk", "bursar top disk --node node-a --sample 30s"),
    "top licences": (
        "bursar top licences -f examples/licences",
        "bursar top licences --by-namespace --sort-by -used",
    ),
    "top namespaces": (
        "bursar top namespaces -f examples/capacity --sort-by -mem",
        "bursar top namespaces --group-by label:team",
        "bursar top namespaces -o csv",
    ),
    "top nodes": (
        "bursar top nodes -f examples/capacity --group-by label:zone",
        "bursar top nodes --sort-by -cpu-free",
        "bursar top nodes --resource nvidia.com/gpu",
    ),
    "top peerpods": (
        "bursar top peerpods -f examples/node-pool.yaml",
        "bursar top peerpods --sort-by -free",
    ),
    "top pods": (
        "bursar top pods -f examples/capacity --group-by owner",
        "bursar top pods -A --sort-by -mem",
        "bursar top pods -A --group-by label:app.kubernetes.io/name -o wide",
    ),
    "top quotas": (
        "bursar top quotas -f examples/capacity",
        "bursar top quotas -A --sort-by -percent",
        "bursar top quotas -n shop --resource requests.cpu",
    ),
    "up": (
        "bursar up",
        "bursar up -f examples/queue --for 1s",
        "bursar up --context staging",
    ),
    "version": ("bursar version", "bursar version -o json", "bursar version --context staging"),
    "webhook": ("bursar webhook --tls-dir /etc/bursar/tls",),
}
"""Lines to type, by the names of the command."""
