"""Each weakness of upstream's webhook, asked of ours: reviews in, what the pod becomes out.

Where the API server has a part in it, the test is in `test_peerpods.py`; the page
`docs/reference/peerpod-weaknesses.md` says where each is.
"""

import base64
import json
import re
from typing import Any

import pytest

from bursar.adapters.admission.peerpods import PeerPodCounts, peer_pod_routes
from bursar.adapters.memory.objects.patches import json_patched
from bursar.adapters.serving.message import JSON, Request
from bursar.app.install.peerpods import (
    PeerPodInstallation,
    peer_pod_documents,
    peer_pod_documents_without_webhook,
)
from bursar.app.names import PEER_PODS_PATH
from bursar.core.model.quantity import Quantity
from bursar.core.model.selectors.selector import LabelSelector, selector_of
from bursar.core.peerpods.capacity import preset
from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.settings import PeerPodSettings
from support.builders.peer_pods import (
    EFFECTIVE,
    KATA,
    ONE_VM,
    RECORD,
    UPSTREAM,
    a_peer_pod,
    init,
    main,
    sidecar,
    sized,
)
from support.builders.reviews import a_review
from support.named_tests import TESTS, is_there, named_in

PAGE = TESTS.parent / "docs" / "reference" / "peerpod-weaknesses.md"


async def asked(
    pod: dict[str, Any], settings: PeerPodSettings = EFFECTIVE
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod afterwards, and the response."""
    route = peer_pod_routes(settings, PeerPodCounts())["POST", PEER_PODS_PATH]
    body = json.dumps(a_review("Pod", "CREATE", pod)).encode()
    headers = {"content-type": JSON}
    request = Request(method="POST", path=PEER_PODS_PATH, headers=headers, body=body)
    response = json.loads((await route.handler(request)).body)["response"]
    steps = json.loads(base64.b64decode(response.get("patch", "") or b"W10="))
    return json_patched(pod, steps), response


def size_of(pod: dict[str, Any]) -> str:
    held = pod["metadata"].get("annotations", {})
    keys = ("default_vcpus", "default_memory", "default_gpus")
    return " ".join(held.get(KATA + key, "-") for key in keys)


async def sizes(*containers: dict[str, Any], **spec: Any) -> tuple[str, str]:
    """In upstream's mode and in ours."""
    pod = a_peer_pod(*containers, **spec)
    (theirs, _), (ours, _) = await asked(pod, UPSTREAM), await asked(pod)
    return size_of(theirs), size_of(ours)


# ------------------------------------------------------------------ sizes


async def test_w1_asked_again_the_size_stays_right():
    pod, _ = await asked(a_peer_pod(main("cpu=4 memory=8Gi", "cpu=4 memory=8Gi")))
    # A namespace's defaults fill what is empty, and somebody injects a proxy.
    for side, amounts in sized("cpu=1 memory=128Mi", "cpu=1 memory=128Mi").items():
        pod["spec"]["containers"][0]["resources"][side] |= amounts
    pod["spec"]["containers"].append({"name": "proxy", **main("cpu=100m", "cpu=100m")})
    again, _ = await asked(pod)
    third, response = await asked(again)

    assert size_of(again) == "5 8192 -"
    assert again["spec"]["containers"][0]["resources"] == ONE_VM
    assert (third, "patch" in response) == (again, False)


async def test_w2_a_large_init_step_does_not_double_the_vm():
    assert await sizes(
        init("cpu=2 memory=4Gi", "cpu=2 memory=4Gi"), main("cpu=2 memory=4Gi", "cpu=2 memory=4Gi")
    ) == ("4 8192 -", "2 4096 -")


async def test_w3_sidecars_run_beside_and_init_steps_before():
    assert await sizes(
        sidecar("cpu=1 memory=1Gi", "cpu=1 memory=1Gi"),
        init("cpu=3 memory=1Gi", "cpu=3 memory=1Gi"),
        main("cpu=2 memory=2Gi", "cpu=2 memory=2Gi"),
    ) == ("6 4096 -", "4 3072 -")


async def test_w4_each_container_counts_with_the_greater_of_its_two():
    mixed = await sizes(main("cpu=1", "cpu=4"), main("cpu=10"))

    assert mixed == ("11 - -", "14 - -")
    assert await sizes(main("cpu=0", "cpu=2")) == ("- - -", "2 - -")


async def test_w5_what_the_pod_states_for_itself_sizes_the_vm_and_leaves_the_worker():
    whole = sized("cpu=3 memory=6Gi", "cpu=3 memory=6Gi")
    pod, _ = await asked(a_peer_pod(main("cpu=1", "cpu=1"), resources=whole))

    assert size_of(pod) == "3 6144 -"
    assert "resources" not in pod["spec"]
    assert pod["spec"]["containers"][0]["resources"] == ONE_VM


async def test_w6_the_guest_gets_headroom_and_a_floor():
    roomy = PeerPodSettings(
        headroom_memory=Quantity.parse("256Mi"), floor_vcpus=2, floor_memory=Quantity.parse("1Gi")
    )
    tiny, _ = await asked(a_peer_pod(main("cpu=100m memory=64Mi")), roomy)
    large, _ = await asked(a_peer_pod(main("cpu=4 memory=8Gi")), roomy)

    assert (size_of(tiny), size_of(large)) == ("2 1024 -", "4 8448 -")


CATALOGUE = (
    InstanceType(name="small", vcpus=2, memory_mib=4096, price=Quantity.parse("1")),
    InstanceType(name="large", vcpus=16, memory_mib=65536, price=Quantity.parse("8")),
    InstanceType(name="gpu", vcpus=8, memory_mib=65536, gpus=1, price=Quantity.parse("9")),
)


@pytest.mark.parametrize(
    ("container", "chosen"),
    [
        (main("cpu=16"), "large"),
        (main("memory=5Gi"), "large"),
        (main("memory=4Gi"), "small"),
        (main("nvidia.com/gpu=1", "nvidia.com/gpu=1"), "gpu"),
    ],
)
async def test_w7_a_pod_that_asks_for_one_thing_gets_a_type_that_has_it(container, chosen):
    pod, _ = await asked(a_peer_pod(container), PeerPodSettings(catalogue=CATALOGUE))

    assert pod["metadata"]["annotations"][f"{KATA}machine_type"] == chosen


async def test_w8_gpus_of_every_name_are_counted_and_written_as_a_number():
    settings = PeerPodSettings(gpu_resources=("nvidia.com/gpu", "amd.com/gpu"))
    gpus = main("nvidia.com/gpu=999 amd.com/gpu=1", "nvidia.com/gpu=999 amd.com/gpu=1")
    pod, response = await asked(a_peer_pod(gpus), settings)

    assert size_of(pod) == "- - 1000"
    assert "warnings" not in response


@pytest.mark.parametrize("name", ["amd.com/gpu", "nvidia.com/mig-1g.5gb", "google.com/tpu"])
async def test_w8_a_device_that_is_not_known_is_not_lost_in_silence(name):
    _, response = await asked(a_peer_pod(main(f"{name}=1", f"{name}=1")))

    assert response["warnings"] == [f"removed, and not passed on to the VM: {name}"]


async def test_w11_what_the_vm_does_not_get_is_told_and_on_record():
    amounts = "cpu=1 ephemeral-storage=10Gi hugepages-2Mi=4Mi example.com/fpga=1"
    container = main(amounts, amounts)
    container["resources"]["claims"] = [{"name": "camera"}]
    claims = [{"name": "camera", "resourceClaimName": "camera"}]
    pod, response = await asked(a_peer_pod(container, resourceClaims=claims))
    record = json.loads(pod["metadata"]["annotations"][RECORD])

    assert response["warnings"] == [
        "removed, and not passed on to the VM: ephemeral-storage, hugepages-2Mi, example.com/fpga",
        "claims are not passed on to the VM: camera",
    ]
    assert record["containers"] == [{"name": "c0", "kind": "container", **container["resources"]}]


async def test_w12_a_size_of_the_author_is_not_overwritten_without_a_word():
    own = {f"{KATA}default_vcpus": "8", f"{KATA}default_memory": "512"}
    pod, response = await asked(a_peer_pod(main("cpu=2 memory=1Gi"), annotations=own))

    assert size_of(pod) == "8 1024 -"
    assert response["warnings"] == [
        f"annotation {KATA}default_memory: 512 is less than the containers need; it becomes 1024"
    ]


# ------------------------------------------------------------------ the cluster


async def test_w20_fields_newer_than_we_are_survive():
    pod = a_peer_pod(main("cpu=1", xNewer={"a": [1.5]}), xNewer=True)
    pod["metadata"]["xNewer"] = {"deep": [{}, None]}
    pod["spec"]["containers"][0]["resources"]["xNewer"] = "kept"
    after, _ = await asked(pod)
    container = after["spec"]["containers"][0]

    assert after["metadata"]["xNewer"] == {"deep": [{}, None]}
    assert (after["spec"]["xNewer"], container["xNewer"]) == (True, {"a": [1.5]})
    assert container["resources"] == {**ONE_VM, "xNewer": "kept"}


async def test_w20_other_pods_are_answered_without_a_patch():
    pod = a_peer_pod(main("cpu=1"), runtimeClassName="runc", xNewer=True)
    after, response = await asked(pod)

    assert (after, "patch" in response) == (pod, False)


def test_w21_nobody_but_peer_pods_depends_on_the_webhook():
    *_, configuration = peer_pod_documents(PeerPodInstallation(namespace="home"))
    (webhook,) = configuration["webhooks"]
    (condition,) = webhook["matchConditions"]

    assert condition["expression"] == (
        "object.spec.?runtimeClassName.orValue('') in ['kata-remote']"
    )
    assert webhook["timeoutSeconds"] < 10


@pytest.mark.parametrize("settings", [EFFECTIVE, UPSTREAM])
async def test_w22_a_pod_without_containers_is_left_to_the_api_server(settings):
    pod, response = await asked(a_peer_pod(), settings)

    assert response == {"uid": "review-1", "allowed": True, "status": {"code": 200}}
    assert pod == a_peer_pod()


async def test_w23_the_vm_has_one_name_in_webhook_capacity_and_policy():
    name, classes = "example.com/vm", ("kata-remote", "kata-gpu")
    settings = PeerPodSettings(vm_resource=name, runtime_classes=frozenset(classes))
    pod, _ = await asked(a_peer_pod(main("cpu=1"), runtimeClassName="kata-gpu"), settings)
    (declared,) = preset({}, selector_of(LabelSelector()), name).declarations
    documents = peer_pod_documents_without_webhook(
        PeerPodInstallation(vm_resource=name, runtime_classes=classes)
    )

    assert pod["spec"]["containers"][0]["resources"]["limits"] == {name: "1"}
    assert declared.resource == name
    assert json.dumps(documents).count(f"'{name}': '1'") == 2


# ------------------------------------------------------------------ the page

ROW = re.compile(r"^\| (W\d+) \|(.*)\|$", re.MULTILINE)


def test_the_page_has_every_weakness_with_a_test_or_a_reason():
    rows = ROW.findall(PAGE.read_text())
    for number, rest in rows:
        *_, answer, proof = (cell.strip() for cell in rest.split(" | "))
        named = named_in(proof)

        assert [each for each in named if not is_there(*each)] == [], number
        assert named or proof == "-", number
        assert answer, number
    assert [number for number, _ in rows] == [f"W{number}" for number in range(1, 34)]
