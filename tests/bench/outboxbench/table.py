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


def section(axis, summary, kept):
    """One axis as a table; peers' own figures, which have no bar, follow in a line."""
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
    if axis.errors:
        lines += ["", "Failed: " + "; ".join(axis.errors)]
    return "\n".join(lines)


def document(axes, about, kept):
    """The whole page. `about` says where, when and with what."""
    machine, versions, options = about["machine"], about["versions"], about["options"]
    head = ["# Benchmarks", "",
            f"{about['at']}, revision {about['revision']}. {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, kernel {machine['kernel']}.",
            f"{versions['outboxd']}; {versions['postgresql']}; {versions['openssl']}.",
            "PostgreSQL: " + ", ".join(f"{name} {value}" for name, value in sorted(about["postgresql_settings"].items())) + ".",
            f"Events of 1 KB, {options['rows']:,} per drain, {options['reps']} repetitions; relay, PostgreSQL and receiver share the cores. "
            + (f"Peers: {', '.join(about['peers'])}." if about["peers"] else "No peer took part."), ""]
    if kept:
        head += [f"Kept results: {kept['at']}, revision {kept['revision']}.", ""]
    body = [section(axis, axis.summary(), kept) + "\n" for axis in axes if axis.samples or axis.errors]
    if about["disturbed"]:
        body.append(f"Disturbed, something else used more than a fifth of a core: {'; '.join(about['disturbed'])}.\n")
    return "\n".join(head + body)


def results(axes, about):
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
