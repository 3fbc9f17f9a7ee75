"""The results as a table in markdown and as JSON, beside the ones that were kept."""

import json
import os


def number(value, figure):
    if value is None:
        return "-"
    text = f"{value:,.{figure.digits}f}"
    return f"{text} {figure.unit}".rstrip() if figure.unit not in ("x", "") else text


def spread(entry, figure):
    """median (min–max), or the one value."""
    if not entry:
        return "-"
    plain = lambda value: f"{value:,.{figure.digits}f}"  # noqa: E731
    text = number(entry["median"], figure)
    return text if entry["n"] < 2 else f"{text} ({plain(entry['min'])}–{plain(entry['max'])})"


def change(entry, kept):
    """How far the median moved; `within` when the ranges of both overlap, so that it may be nothing."""
    if not entry or not kept or not kept["median"]:
        return "-"
    percent = 100 * (entry["median"] / kept["median"] - 1)
    overlap = entry["min"] <= kept["max"] and kept["min"] <= entry["max"]
    return f"{percent:+.1f} %" + (" (within)" if overlap and abs(percent) >= 0.05 else "")


def verdict(entry, figure):
    held = figure.holds(entry["median"]) if entry else None
    return "" if held is None else ("yes" if held else "**no**")


def section(axis, part, kept, at):
    """One axis as a table; peers' own figures, which have no bar, follow in a line. `part` is its share of the results, `at` the time of the run that the page is about."""
    summary = part["figures"]
    lines = [f"### {axis.title}", "", "| | bar | measured: median (min–max) | holds | kept | change |", "| --- | --- | ---: | --- | ---: | ---: |"]
    old = (kept or {}).get("axes", {}).get(axis.name, {}).get("figures", {})
    for figure in axis.figures:
        entry, before = summary.get(figure.key), old.get(figure.key)
        bar = f"{figure.bar} {figure.unit}".strip() if figure.bar else ""
        lines.append(f"| {figure.title} | {bar} | {spread(entry, figure)} | {verdict(entry, figure)} | {number(before['median'] if before else None, figure)} | {change(entry, before)} |")
    known = {figure.key for figure in axis.figures}
    others = [f"{key} {entry['median']:,.2f} ({entry['min']:,.2f}–{entry['max']:,.2f})" for key, entry in summary.items() if key not in known]
    if others:
        lines += ["", "Also measured: " + "; ".join(others) + "."]
    if part["at"] != at:
        lines += ["", f"From an earlier run: {part['at']}, revision {part['revision']}."]
    if part["errors"]:
        lines += ["", "Failed: " + "; ".join(part["errors"])]
    return "\n".join(lines)


def document(axes, found, kept):
    """The whole page about `found`, which results() or merged() has made."""
    machine, versions, options = found["machine"], found["versions"], found["options"]
    head = ["# Benchmarks", "",
            f"{found['at']}, revision {found['revision']}. {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, kernel {machine['kernel']}.",
            f"{versions['outboxd']}; {versions['postgresql']}; {versions['openssl']}.",
            "PostgreSQL: " + ", ".join(f"{name} {value}" for name, value in sorted(found["postgresql_settings"].items())) + ".",
            f"Events of 1 KB, {options['rows']:,} per drain, {options['reps']} repetitions; relay, PostgreSQL and receiver share the cores. "
            + (f"Peers: {', '.join(found['peers'])}." if found["peers"] else "No peer took part."), ""]
    if kept:
        other = [f"{name} {kept['options'].get(name)}" for name in options if kept["options"].get(name) != options[name]]
        head += [f"Kept results: {kept['at']}, revision {kept['revision']}" + (f", with other options: {', '.join(other)}." if other else "."), ""]
    body = [section(axis, found["axes"][axis.name], kept, found["at"]) + "\n" for axis in axes if axis.name in found["axes"]]
    if found["disturbed"]:
        body.append("Disturbed, something else used more than a fifth of a core: "
                    + "; ".join(f"{what} (up to {100 * max(shares):.0f} % of a core)" for what, shares in found["disturbed"].items()) + ".\n")
    return "\n".join(head + body)


def results(axes, about):
    """What was measured so far, with where, when and with what."""
    measured = {axis.name: {"title": axis.title, "revision": about["revision"], "at": about["at"], "figures": axis.summary(), "errors": axis.errors} for axis in axes if axis.samples or axis.errors}
    return {**about, "axes": measured}


def load(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as text:
        return json.load(text)


def merged(new, kept):
    """What is kept after a run of some axes: theirs are new, the others stay with their own date."""
    return {**new, "axes": {**((kept or {}).get("axes", {})), **new["axes"]}}


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as out:
        out.write(text)
    os.replace(path + ".new", path)
