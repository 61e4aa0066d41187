"""Tests of the parser of `Attributes:` sections, on classes with and without one."""

from dataclasses import dataclass

from hindcast.pipeline.dataset.documents.attributes import attributes


@dataclass(frozen=True)
class Pool:
    """Settings of a pool: an example.

    Attributes: of a pool are those below.

    Attributes:
        machines: Number of machines, at least 1.
        speed (float): Speed of a machine,
            in jobs per step: 0.5 or more.

        rule: Name of a rule:
            "first" or "best".

    Raises:
        ValueError: This line is no attribute.
    """

    machines: int
    speed: float
    rule: str


def test_each_entry_is_one_line_of_text():
    """Continuation lines are joined; types, empty lines and other sections are left out."""
    assert attributes(Pool) == {
        "machines": "Number of machines, at least 1.",
        "speed": "Speed of a machine, in jobs per step: 0.5 or more.",
        "rule": 'Name of a rule: "first" or "best".',
    }


def test_a_class_without_a_section_has_no_entries():
    @dataclass
    class Plain:
        """machines: A docstring without a section."""

        machines: int = 1

    @dataclass
    class Bare:
        machines: int = 1

    assert attributes(Plain) == attributes(Bare) == {}
