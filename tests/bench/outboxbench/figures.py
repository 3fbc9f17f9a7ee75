"""The vocabulary of the table: a figure with its bar, an axis that measures figures, samples over the repetitions."""

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """One line. `at_least` and `at_most` are its bar; neither: for information."""

    key: str
    title: str
    unit: str = ""
    digits: int = 0
    at_least: float | None = None
    at_most: float | None = None

    @property
    def bar(self):
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:g}" if self.at_most is not None else ""

    def holds(self, value):
        """None without a bar."""
        if self.at_least is not None:
            return value >= self.at_least
        return value <= self.at_most if self.at_most is not None else None


@dataclass
class Axis:
    """One subject. measure(stage, repetition) returns {key: value} of its figures; the variants that a ratio compares are measured next to each other in each repetition."""

    name: str
    title: str
    figures: list
    measure: object
    begin: object = None
    end: object = None
    samples: dict = field(default_factory=dict)
    errors: list = field(default_factory=list)

    def add(self, values):
        for key, value in values.items():
            if value is not None:
                self.samples.setdefault(key, []).append(value)

    def summary(self):
        """{key: {median, min, max, n}} of what was measured."""
        return {key: {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values), "samples": values} for key, values in self.samples.items()}


def best_of_peers(results, key, lower_is_better=False):
    """The best peer's value in this repetition; None without peers."""
    values = [r[key] for r in results.values()]
    if not values:
        return None
    return min(values) if lower_is_better else max(values)


def quotient(a, b):
    return a / b if a is not None and b else None


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
