"""Losses and schedules without accelerate."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["accelerate"] = None  # as if it were not installed
import attention_course.training
from attention_course.training import LabelSmoothing, warmup_cosine
from companion.losses import reinforce_loss
try:
    attention_course.training.Trainer
except ModuleNotFoundError as error:
    print(error)
"""


def test_only_the_trainer_needs_accelerate_and_says_how_to_install_it():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == 'accelerate is not installed: pip install "attention-companion[book]"\n'
    )
