"""What processes do not load, because it would cost each of them memory."""

import subprocess
import sys

import pytest

ASK = "import sys, bursar.entry.{}; print('cryptography' in sys.modules)"


@pytest.mark.parametrize("process", ["agent", "command", "controller", "up", "webhook"])
def test_no_process_loads_cryptography_at_its_start(process):
    """Only a leader that keeps certificates does."""
    ran = subprocess.run(
        [sys.executable, "-c", ASK.format(process)], capture_output=True, text=True, check=True
    )

    assert ran.stdout == "False\n"
