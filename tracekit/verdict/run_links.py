"""Slow links of a run: groups of ranks whose messages take longer on the wire than in similar
groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracekit.replay.ranks.prices import Pricing
from tracekit.replay.ranks.rank_replay import RankReplay
from tracekit.text import size
from tracekit.thresholds import Thresholds
from tracekit.verdict.run_model import SlowLink


def slow_links(
    pricing: Pricing, bandwidth: Sequence[dict[str, Any]], thresholds: Thresholds
) -> list[SlowLink]:
    """The slow links, the most expensive first; `bandwidth` holds the rows of the query
    link_bandwidth. Only groups that exchange the same messages among as many ranks are compared."""
    slow: dict[tuple[int, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in bandwidth:
        if row["alike"] and row["slower"] >= thresholds.slow_link:
            slow[tuple(row["ranks"])].append(row)
    found, joined = [], pricing.joined
    for ranks, rows in slow.items():
        excess = [(row["wire_ns"] - row["others_wire_ns"]) * row["count"] for row in rows]
        most = rows[excess.index(max(excess))]
        found.append(
            SlowLink(
                ranks=list(ranks),
                type=most["type"],
                message_bytes=most["message_bytes"],
                wire_ns=most["wire_ns"],
                others_wire_ns=most["others_wire_ns"],
                excess_ns=sum(excess),
                saves_ns=pricing.saved(joined.run(joined.scales(), _as_quick(joined, rows))),
            )
        )
    return sorted(found, key=lambda link: (-link.saves_ns, -link.excess_ns))


def _as_quick(joined: RankReplay, rows: Sequence[dict[str, Any]]) -> np.ndarray:
    """For each meeting, the factor that makes the messages of these rows take as long as others."""
    members, last = joined.members, joined.last
    wire = np.maximum(members.wire_ns[last], 1)
    factor = np.ones(members.count)
    for row in rows:
        alike = (members.group[last] == row["group_key"]) & (members.type[last] == row["type"])
        alike &= members.bytes[last] == row["message_bytes"]
        factor[alike] = np.minimum(1.0, row["others_wire_ns"] / wire[alike])
    return factor


def describe_link(link: SlowLink) -> str:
    """A link in a sentence."""
    ranks = ", ".join(map(str, link.ranks))
    return f"{link.type} of {size(link.message_bytes)} among ranks {ranks}"
