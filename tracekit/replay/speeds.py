"""How long a window would be if the host, the device or the network were faster: replays at every
combination of a few speeds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from tracekit.replay.changes import scale_cause

if TYPE_CHECKING:
    from tracekit.replay.gains import WindowGains

# Times as fast as recorded. Each is twice the one before it, so that the next point of the grid
# tells what halving a side's work gains.
SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_NETWORK_SPEEDS = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Speed:
    """A window at other speeds than recorded, without one-off events.

    Each gain is what halving the work of one side would make the window shorter then, as a fraction
    of `window_ns`.
    """

    host: float
    """How many times as fast as recorded the host is."""
    device: float
    """The same of the device's work, without communication between ranks."""
    network: float
    """The same of communication between ranks."""
    window_ns: int
    host_gain: float
    device_gain: float
    """Of halving the device's work, communication included."""
    network_gain: float
    """Of halving communication alone."""


def speeds(gains: WindowGains, kind: str, number: int) -> list[Speed]:
    """The window that `WindowGains.gains` names, at all combinations of the speeds."""
    window, replay = gains.window(kind, number), gains.replay
    has_network = bool(gains.gains(kind, number).work_ns.get("communication"))
    networks = _NETWORK_SPEEDS if has_network else (1.0,)
    lengths: dict[tuple[float, float, float], int] = {}

    def length(host: float, device: float, network: float) -> int:
        point = host, device, network if has_network else 1.0
        if point not in lengths:
            scale = replay.scale(steady=gains.steady)
            scale_cause("host", 1 / host, scale, replay.graph)
            scale_cause("device", 1 / device, scale, replay.graph)
            if has_network:
                # The device's change holds for communication, too.
                scale_cause("communication", device / network, scale, replay.graph)
            lengths[point] = window.length(replay.simulator.run(scale))
        return lengths[point]

    found = []
    for host, device, network in product(SPEEDS, SPEEDS, networks):
        here = length(host, device, network)
        faster = (
            length(2 * host, device, network),
            length(host, 2 * device, 2 * network),
            length(host, device, 2 * network),
        )
        shorter = ((here - each) / here if here else 0.0 for each in faster)
        found.append(Speed(host, device, network, here, *shorter))
    return found
