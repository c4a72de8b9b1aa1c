"""Which actions a history draws from, by the names of its methods, and how often each happens."""

from enum import Enum
from random import Random

COMMON = 8
"""Actions with more weight than this are in every history, and so are hostile ones; the others in
every second."""
ACTIONS = {
    "create": 40,
    "delete": 9,
    "recreate": 4,
    "begin_deletion": 3,
    "finish": 5,
    "touch": 5,
    "set_deadline": 1,
    "ask_for_resize": 12,
    "write_resize": 5,
    "forge": 2,
    "end_promises": 3,
    "set_wall_clock": 4,
    "count_otherwise": 2,
    "write_quota": 5,
    "mend_quota": 2,
    "change_limits": 3,
    "change_order": 3,
    "change_scopes": 2,
    "delete_quota": 1,
    "delete_quotas": 0.3,
    "relabel": 2,
    "retarget": 1,
    "delete_namespace": 0.3,
    "deliver": 25,
    "catch_up": 12,
    "relist": 5,
    "send_lift": 40,
    "land_stray": 4,
    "refuse": 3,
    "wait": 9,
    "crash": 1,
    "lose_lease": 1,
    "back_up": 1,
    "restore": 1,
    "become_quiet": 2,
}
HOSTILE = {
    "hold": 9,
    "bank": 9,
    "flip": 9,
    "grow": 9,
    "forge": 9,
    "spam": 12,
    "send_late": 4,
    "wait": 14,
}
"""What is added, or happens more often, in a history with a hostile tenant."""
GROWTH = {
    "create": 0.5,
    "ask_for_resize": 4,
    "write_resize": 2,
    "forge": 2,
    "grow": 4,
    "send_late": 3,
    "end_promises": 2,
    "deliver": 1,
    "catch_up": 1,
    "send_lift": 1,
    "wait": 1,
    "set_wall_clock": 2,
    "crash": 5,
    "lose_lease": 5,
    "delete": 1,
    "touch": 1,
    "write_quota": 2,
    "change_scopes": 2,
    "retarget": 0.5,
}
"""How much more often these happen in histories about growth."""
QUOTAS = {
    "create": 1,
    "touch": 1,
    "ask_for_resize": 0.5,
    "write_quota": 5,
    "mend_quota": 3,
    "change_limits": 4,
    "change_scopes": 2,
    "delete_quota": 15,
    "delete_quotas": 10,
    "relabel": 3,
    "retarget": 20,
    "delete_namespace": 20,
    "deliver": 1,
    "catch_up": 1,
    "send_lift": 1,
    "wait": 1,
    "crash": 2,
    "restore": 3,
    "back_up": 3,
    "spam": 1,
}
"""How much more often these happen in histories about quotas and namespaces."""
ORDERLY = {
    "create",
    "delete",
    "recreate",
    "finish",
    "touch",
    "set_deadline",
    "count_otherwise",
    "change_limits",
    "change_order",
    "change_scopes",
    "relabel",
    "retarget",
    "wait",
    "crash",
    "become_quiet",
    "hold",
    "bank",
    "flip",
    "spam",
}
"""What happens in orderly histories."""


class Subject(Enum):
    """What a history is about. All other actions are rare."""

    ANYTHING = "anything"
    ORDER = "order"
    """Everything is heard and answered at once, so that it can be judged which pod goes first."""
    GROWTH = "growth"
    """Resizes and changes of leader."""
    QUOTAS = "quotas"
    """Quotas and namespaces that change, go and come back."""


def weights_of(
    subject: Subject, random: Random, *, is_under_siege: bool, has_steps: bool
) -> dict[str, float]:
    """The actions of a history, with their weights."""
    factors = {Subject.GROWTH: GROWTH, Subject.QUOTAS: QUOTAS}.get(subject)
    chosen = ACTIONS | HOSTILE if is_under_siege else ACTIONS
    return {
        action: weight * (1 if factors is None else factors.get(action, 0.2))
        for action, weight in chosen.items()
        if weight > COMMON or action in HOSTILE or random.random() < 0.5
        if subject is not Subject.ORDER or action in ORDERLY
        if action != "set_wall_clock" or has_steps
    }
