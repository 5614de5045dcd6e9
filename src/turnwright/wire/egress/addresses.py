"""Addresses that no allowed name may lead to: this computer, its neighbours, and whoever hands out credentials there.

Written out from the registries of special addresses (IANA), because the standard library's `is_global` has changed its
mind between versions of Python, and because some addresses that are public on paper are a cloud's own.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_BLOCKED_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network; Linux takes 0.0.0.0 for itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a provider's translation; one cloud's metadata (100.100.100.200)
        "127.0.0.0/8",
        "168.63.129.16/32",  # public on paper, yet one cloud's own server of keys
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",  # another cloud's metadata (192.0.0.192)
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays for 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",  # with the broadcast address
    )
)
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
"""All that has been given out. So loopback, link-local, unique-local (with fd00:ec2::254), site-local, mapped
(::ffff:0:0/96), compatible, local translation (64:ff9b:1::/48) and multicast addresses are refused unnamed."""
_BLOCKED_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocols, among them Teredo, which wraps an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4: wraps an IPv4 address
        "3fff::/20",
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def why_not(text: str) -> str:
    """Why nothing may connect to this address; empty where it may."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "is not an address"
    if not _is_public(address):
        return "is private, local or reserved"
    if _is_ours(address):
        return "is this computer's own"
    return ""


def _is_public(address: Address) -> bool:
    match address:
        case ipaddress.IPv4Address():
            return not any(address in network for network in _BLOCKED_V4)
        case ipaddress.IPv6Address():
            if address in _NAT64:  # where there is only IPv6, every IPv4 address looks so
                return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
            return address in _PUBLIC_V6 and not any(address in network for network in _BLOCKED_V6)


def _is_ours(address: Address) -> bool:
    """Whether the kernel would deliver it here. Connecting a datagram socket sends nothing; it only picks a route."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 443))
        except OSError:
            return False  # no route: the connection will fail as well, and say so
        ours: str = probe.getsockname()[0]
    return ipaddress.ip_address(ours.partition("%")[0]) == address
