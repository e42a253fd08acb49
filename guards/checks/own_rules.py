"""Rule functions of the installation's own, by the entry points of the group `sluicegate.rules`.

`def rule(subject: Subject) -> str | None` says why the text is not good enough, or None. It runs in
a thread of the checker's and has no time limit: a rule that may hang must have its own.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, Final

from ...schemas import CheckRecord, Flaw
from .records import evidence, failed, passed, rejected
from .subject import Subject

GROUP: Final = "sluicegate.rules"
Rule = Callable[[Subject], str | None]


class UnknownRule(LookupError):
    """No installed package has a rule of that name."""


def check_own(check: str, subject: Subject, name: str) -> CheckRecord:
    """What the rule with this name says."""
    try:
        said: Any = find_rule(name)(subject)
    except UnknownRule as error:
        return failed(check, str(error))
    # A rule that calls sys.exit must not end the checker's thread.
    except (Exception, SystemExit) as error:
        return failed(check, f"the rule {name} raised {type(error).__name__}: {error}", error)
    if said is None:
        return passed(check)
    if not isinstance(said, str):
        kind = type(said).__name__
        return failed(check, f"the rule {name} gave {kind}; it must give None or a text")
    whole = evidence(subject.text, 0, len(subject.text))
    return rejected(check, Flaw.OWN_RULE, said or f"the rule {name} said no", evidence=[whole])


def rule_names() -> tuple[str, ...]:
    """The rules that are installed."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


@lru_cache(maxsize=64)
def find_rule(name: str) -> Rule:
    """The rule with this name, loaded once. Raises UnknownRule, and whatever loading it does."""
    for point in entry_points(group=GROUP, name=name):
        return point.load()
    there = ", ".join(rule_names()) or "none"
    raise UnknownRule(
        f"there is no rule {name} in this checker's installation (there: {there}); install the "
        f"package that has it as an entry point of the group {GROUP}"
    )
