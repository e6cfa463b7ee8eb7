"""Goal: servers on one cluster answer as one server with a store of its own answers to the same history. Method: random
histories of puts, late and repeated puts, purges, holds, stashes, reads, the wiki's words, passing time, culls and one
change of policy (histories.py), at four servers on three nodes, and at servers of two data centres. Meanwhile a server is
killed and started, or a node. HISTORY_SEED=N plays a history again; a title whose answers differ is printed, act by act."""
import contextlib
import json
import os
import random
import subprocess
import time

import histories
import shared_store
from rig import Cluster, check, eq, main, scene
from served import options, schema

HISTORIES = int(os.environ.get('HISTORIES', '2'))
SERVERS, NODES = 4, 3


def apply_policy(binary, words):
    """`policy apply`; from when it is in force, or None: from the beginning."""
    done = subprocess.run([binary, 'policy', 'apply', '--json', *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, check=False)
    eq(done.returncode, 0, done.stderr)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return next((one['from'] for one in told if one['state'] == 'written' and one['bucket'] == 'page'), None)


def history(binary, cluster, seed, space, points_of, sites_of=None, harmed=None):
    """points_of: of each server the nodes it knows."""
    print(f'   HISTORY_SEED={seed}', flush=True)
    rng = random.Random(seed)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        world = histories.World(stack, binary, rng, 0)
        for words in (histories.TTLS, histories.LATER):
            said = apply_policy(binary, [*world.words(*words), *options(cluster, space, *histories.SETTLED[3:])])
        # Minutes of the history are counted from when the second one is in force.
        turn_at = int(histories.seconds_of(said)) + 1
        world.now = turn_at - 15 * 3600
        world.start_alone(*histories.TTLS)
        for points in points_of:
            world.start_shared(cluster, space, points, *histories.LATER)
        sites = [[world.shared[n] for n in site] for site in sites_of] if sites_of else None

        def harm(step):
            if harmed and step % 12 == 7:
                harmed(rng, world)
        acts = histories.play(world, turn_at, lambda: world.restart_alone(*histories.LATER), sites, harm=harm)
        histories.check_no_broken(world)
        culled = sum(int(line.split()[1]) for server in world.shared for line in server.request(
            'GET', '/metrics').body.decode().splitlines() if line.startswith('palimpsest_pages_culled_total '))
    print(f'   {acts} acts, {culled} culled, {time.monotonic() - began:.0f} s', flush=True)


def three_nodes(binary, cluster, seed):
    space = f'h{seed}'
    cluster.execute(f'DROP KEYSPACE IF EXISTS {space}')
    done = schema(binary, cluster, space, '--set', f'store.replication=dc1={NODES}')
    eq(done.returncode, 0, done.stderr)
    points = ','.join(f'{point}:{cluster.port}' for point in cluster.contact_points)

    def harmed(rng, world):
        if rng.random() < 0.5:
            world.restart_shared(rng.choice(world.shared))
        else:
            n = rng.randint(1, NODES)
            cluster.kill(n)
            cluster.start(n)
    history(binary, cluster, seed, space, [points] * SERVERS, harmed=harmed)
    cluster.execute(f'DROP KEYSPACE {space}')


@scene
def four_servers_on_three_nodes_answer_as_one_with_a_store_of_its_own(binary):
    check(shared_store.place() is None, 'the lone server keeps its pages itself')
    first = histories.seed()
    with Cluster(nodes=NODES) as cluster:
        for n in range(HISTORIES):
            three_nodes(binary, cluster, first + n)


main()
