#!/usr/bin/python3
"""Writes golden_ring.txt: tokens and replicas as Debian's python3-cassandra computes them.

    test/unit/cql/make_golden_ring.py > test/unit/cql/golden_ring.txt

Lines, of which test_cql_ring.c says what they mean:

    token KEY TOKEN              KEY in hex, '-' when empty
    ring SEED                    a new ring; nodes follow
    node DC RACK SEED COUNT      COUNT tokens of splitmix64 from SEED on
    how CLASS NAME=COPIES ...    a replication, for the lines that follow
    at TOKEN NODES               replicas, sorted; '-' for none
    sum DC=FNV ...               of the replicas in DC ('*': all) at all probes of the ring

The driver adds a node twice when it was passed over at two of its tokens and there are more copies
than racks. Such replications are left out; the test compares them with a walk of its own.
"""

import random
import sys

from cassandra.metadata import (Murmur3Token, NetworkTopologyStrategy, SimpleStrategy, TokenMap)
from cassandra.murmur3 import _murmur3

MASK = (1 << 64) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
RINGS = 16


class Host:
    def __init__(self, index, datacenter, rack, seed, count):
        self.index, self.datacenter, self.rack = index, datacenter, rack
        self.seed, self.count = seed, count
        self.tokens = list(tokens_of(seed, count))


def signed(n):
    return n - (1 << 64) if n >> 63 else n


def tokens_of(seed, count):
    for _ in range(count):
        seed = (seed + 0x9e3779b97f4a7c15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
        yield signed(z ^ (z >> 31))


def unmix(h):
    """The inverse of Murmur3's last mixing."""
    for factor in (0xc4ceb9fe1a85ec53, 0xff51afd7ed558ccd):
        h ^= h >> 33
        h = (h * pow(factor, -1, 1 << 64)) & MASK
    return h ^ (h >> 33)


def key_of_hash(h1, h2):
    """A key of 16 bytes with this hash."""
    rotr = lambda x, n: (x >> n | x << (64 - n)) & MASK
    inverse = lambda x: pow(x, -1, 1 << 64)
    c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
    h2 = (h2 - h1) & MASK
    h1 = (h1 - h2) & MASK
    h1, h2 = unmix(h1), unmix(h2)
    h2 = (h2 - h1) & MASK
    h1 = (h1 - h2) & MASK
    h1, h2 = h1 ^ 16, h2 ^ 16
    k2 = rotr((((h2 - 0x38495ab5) * inverse(5)) - h1) & MASK, 31)
    k1 = rotr(((h1 - 0x52dce729) * inverse(5)) & MASK, 27)
    k1 = (rotr((k1 * inverse(c2)) & MASK, 31) * inverse(c1)) & MASK
    k2 = (rotr((k2 * inverse(c1)) & MASK, 33) * inverse(c2)) & MASK
    return k1.to_bytes(8, 'little') + k2.to_bytes(8, 'little')


def write_tokens(rng):
    keys = [bytes(rng.randrange(256) for _ in range(n)) for n in range(65)]
    keys += [bytes([b]) * n for b in (0x00, 0x7f, 0x80, 0xff) for n in (1, 7, 8, 9, 15, 16, 17, 31)]
    least = key_of_hash(1 << 63, 12345)
    assert _murmur3(least) == INT64_MIN
    for key in keys + [least]:
        print('token', key.hex() or '-', Murmur3Token.hash_fn(key))


def fnv(lists):
    h = 0xcbf29ce484222325
    for nodes in lists:
        for b in b''.join(n.to_bytes(2, 'big') for n in nodes + [0xffff]):
            h = ((h ^ b) * 0x100000001b3) & MASK
    return h


def topology(rng, number):
    hosts = []
    counts = [1, 4, 16] if number % 6 else [16, 256]
    each = rng.choice(counts)
    for dc in range(rng.randrange(1, 5)):
        racks = rng.randrange(1, 6)
        for _ in range(rng.choice([1, 1, 2, 3, 4, 6, 8])):
            count = 0 if rng.random() < 0.1 else each if rng.random() < 0.8 else rng.choice(counts)
            hosts.append((f'dc{dc}', f'r{rng.randrange(racks)}', count))
    rng.shuffle(hosts)
    return [Host(i, *h[:2], number * 1000 + i, h[2]) for i, h in enumerate(hosts)]


def replications(rng, dcs):
    yield 'SimpleStrategy', {'*': rng.choice([1, 2, 3])}
    yield 'SimpleStrategy', {'*': rng.choice([4, 5, 9, 100])}
    for most in (3, 3, 5, 9):
        named = {dc: rng.randrange(most + 1) for dc in dcs if rng.random() < 0.9}
        if rng.random() < 0.2:
            named['dc9'] = 3
        yield 'NetworkTopologyStrategy', named


def replicas(hosts, name, copies):
    owner = {Murmur3Token(t): h for h in hosts for t in h.tokens}
    ring = sorted(owner)
    how = SimpleStrategy({'replication_factor': copies['*']}) if name == 'SimpleStrategy' \
        else NetworkTopologyStrategy(copies)

    class Keyspace:
        replication_strategy = how

    class Metadata:
        keyspaces = {'ks': Keyspace}
    tokens = TokenMap(Murmur3Token, owner, ring, Metadata)
    probes = [p for t in ring for p in (t.value, min(t.value + 1, INT64_MAX))]
    probes += [INT64_MIN, INT64_MAX]
    return [(p, tokens.get_replicas('ks', Murmur3Token(p))) for p in probes]


def write_ring(rng, number):
    hosts = topology(rng, number)
    left_out = 0
    print('ring', number)
    for h in hosts:
        print('node', h.datacenter, h.rack, h.seed, h.count)
    dcs = sorted({h.datacenter for h in hosts})
    for name, copies in replications(rng, dcs):
        rows = replicas(hosts, name, copies)
        if any(len(set(r)) != len(r) for _, r in rows):
            left_out += 1
            continue
        print('how', name, *(f'{k}={v}' for k, v in copies.items()))
        if len(rows) < 10:
            for token, found in rows:
                print('at', token, ','.join(map(str, sorted(h.index for h in found))) or '-')
        sums = ((dc, fnv(sorted(h.index for h in r if dc in ('*', h.datacenter)) for _, r in rows))
                for dc in ['*'] + dcs)
        print('sum', *(f'{dc}={h:016x}' for dc, h in sums))
    return left_out


def main():
    rng = random.Random(20261127)
    print('# written by make_golden_ring.py')
    write_tokens(rng)
    left_out = sum(write_ring(rng, n) for n in range(1, RINGS + 1))
    print(f'{left_out} replications left out', file=sys.stderr)


main()
