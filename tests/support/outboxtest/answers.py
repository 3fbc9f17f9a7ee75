"""What a receiver answers: by hand, or as the path of the request says."""

import random
from dataclasses import dataclass, field


@dataclass
class Answer:
    """What to send back. `action` instead of an answer: "hang", "reset" or "close"."""

    status: int = 200
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    delay: float = 0.0
    action: str = ""
    close_after: bool = False


def by_path(request):
    """The behaviour that the path names; 200 for any other path."""
    parts = request.target.partition("?")[0].strip("/").split("/")
    name, value = parts[0], parts[1] if len(parts) > 1 else ""
    if name == "status":
        return Answer(int(value))
    if name == "fail":
        return Answer(int(value or 503))
    if name == "slow":
        return Answer(200, delay=float(value))
    if name == "flaky":
        return Answer(503 if random.random() < float(value) else 200)
    if name == "unreliable":
        lot = random.random()
        if lot < float(parts[2]):
            return Answer(action="close")
        return Answer(503 if lot < float(parts[1]) + float(parts[2]) else 200)
    if name == "first":
        return Answer(503 if request.attempt_of_id <= int(value) else 200)
    if name == "retry-after":
        return Answer(503, headers={"Retry-After": value})
    if name == "redirect":
        return Answer(int(value or 302), headers={"Location": "/ok"})
    if name in ("hang", "reset", "close"):
        return Answer(action=name)
    return Answer(200)
