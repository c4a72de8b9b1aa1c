from bursar.adapters.telemetry.controller.policy_families import policy_families
from bursar.adapters.telemetry.exposition import exposition
from support.counting.policies import a_counter, a_policy, a_row


def test_policies_show_pods_failures_and_charges():
    charge = {"x": "int(object.metadata.annotations.size)"}
    counter = a_counter(a_policy("p", charges=charge, mode="Shadow"), a_policy("bad", match="1 +"))
    for name, size in (("a", "2"), ("b", "3"), ("c", "many")):
        row = a_row(name, annotations={"size": size})
        counter.see_pod(row)
        counter.count(row)
    lines = exposition(policy_families(counter.report())).decode().splitlines()
    assert 'bursar_policy_valid{policy="p",mode="Shadow"} 1' in lines
    assert 'bursar_policy_valid{policy="bad",mode="Enforce"} 0' in lines
    assert 'bursar_policy_pods{policy="p",mode="Shadow"} 3' in lines
    assert 'bursar_policy_failed_pods{policy="p",mode="Shadow"} 1' in lines
    (charged,) = [line for line in lines if line.startswith("bursar_policy_charges{")]
    assert charged.endswith(" 5")
    assert 'namespace="ml",resource="x"' in charged
