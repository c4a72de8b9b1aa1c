"""Options that say which devices quotas count."""

import click
import pytest

from bursar.app.bad_input import BadInputError
from bursar.app.counting.settings import CountingSettings
from bursar.cli.processes.options.counting import counting_from, counting_options
from bursar.core.counting.device_settings import DeviceCounting
from bursar.core.devices.source import KOORDINATOR

CARDS = """
sources:
- name: cards
  annotation: example.com/devices
  layout: {shape: list, kind: KIND}
  kinds:
    KIND: {resource: example.com/card}
"""


@click.command()
@counting_options
def count(**chosen) -> CountingSettings:
    return counting_from(chosen)


def counting(*arguments: str) -> DeviceCounting:
    return count.main(list(arguments), standalone_mode=False).devices


def test_devices_are_counted_if_asked_for():
    assert counting() == DeviceCounting()
    assert counting("--count-devices") == DeviceCounting(sources=(KOORDINATOR,))


def test_other_sources_come_from_the_agents_file(tmp_path):
    file = tmp_path / "sources.yaml"
    file.write_text(CARDS.replace("KIND", "card"))
    chosen = counting("--count-devices", "--device-sources", str(file))

    assert [name for name, _ in chosen.rules()][-1] == "card/cards"
    with pytest.raises(click.UsageError, match="has no effect without --count-devices"):
        counting("--device-sources", str(file))


def test_files_that_mean_nothing_to_quotas_are_refused(tmp_path):
    file = tmp_path / "sources.yaml"
    file.write_text(CARDS.replace("KIND", "my_card"))
    with pytest.raises(click.UsageError, match="no quota can list 'my_card/cards'; set chargedAs"):
        counting("--count-devices", "--device-sources", str(file))
    with pytest.raises(BadInputError, match="No such file"):
        counting("--count-devices", "--device-sources", str(tmp_path / "none.yaml"))
