"""Goal: servers on one cluster answer as one server with a store of its own answers to the same history. Method: random
histories of puts, late and repeated puts, purges, holds, stashes, reads, the wiki's words, passing time, culls and one
change of policy (histories.py), at four servers on three nodes, and at four in two data centres. Meanwhile servers and
nodes are killed and started. HISTORY_SEED=N plays a history again, HISTORY_STEPS is how long, HISTORIES how many there are: of
more than three, SCENE_TIMEOUT has to be longer, too. A title whose answers differ is printed, act by act."""
import contextlib
import json
import os
import random
import subprocess
import time

import histories
import shared_store
from rig import Cluster, check, eq, main, scene
import harness
from served import options, schema

# A scene takes six minutes; where others have the processors, the nodes and the last comparisons alone take as long.
harness.SCENE_TIMEOUT = max(harness.SCENE_TIMEOUT, 1200)
HISTORIES = int(os.environ.get('HISTORIES', '1'))
SERVERS, NODES = 4, 3
STEPS_S = int(os.environ.get('HISTORY_S', '270'))    # from the start of the nodes on; then a history has no more steps


def apply_policy(binary, words):
    """`policy apply`; from when it is in force, or None: from the beginning."""
    done = subprocess.run([binary, 'policy', 'apply', '--json', *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, check=False)
    eq(done.returncode, 0, done.stderr)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return next((one['from'] for one in told if one['state'] == 'written' and one['bucket'] == 'page'), None)


class Harm:
    """Each step of a dozen that is named here has a server or a node killed; the node comes back two steps later."""
    SERVER, NODE_DIES, NODE_COMES = (1, 9), 4, 6

    def __init__(self, cluster, rng, world, numbers):
        self.cluster, self.rng, self.world, self.numbers = cluster, rng, world, numbers
        self.dead = None

    def __call__(self, step):
        if step % 12 in self.SERVER:
            self.world.restart_shared(self.rng.choice(self.world.shared))
        elif step % 12 == self.NODE_DIES and self.numbers:
            self.dead = self.rng.choice(self.numbers)
            self.cluster.kill(self.dead)
        elif step % 12 == self.NODE_COMES:
            self.mend()

    def mend(self):
        if self.dead is not None:
            self.cluster.start(self.dead)
            self.dead = None


def history(binary, cluster, seed, until, sites, dying):
    """until: when it has no more steps. sites: for each data centre its nodes and how many servers it has. dying: nodes of which one is away at times."""
    print(f'   HISTORY_SEED={seed}', flush=True)
    rng, space, began = random.Random(seed), f'h{seed}', time.monotonic()
    cluster.execute(f'DROP KEYSPACE IF EXISTS {space}')
    copies = ','.join(f'{cluster.datacentre(numbers[0])}={len(numbers)}' for numbers, _ in sites)
    done = schema(binary, cluster, space, '--set', f'store.replication={copies}')
    eq(done.returncode, 0, done.stderr)
    with contextlib.ExitStack() as stack:
        world = histories.World(stack, binary, rng, 0)
        for words in (histories.TTLS, histories.LATER):
            said = apply_policy(binary, [*world.words(*words), *options(cluster, space, *histories.SETTLED[3:])])
        # Minutes of the history are counted from when the second one is in force.
        turn_at = int(histories.seconds_of(said)) + 1
        world.now = world.minute = turn_at - 15 * 3600
        world.start_alone(*histories.TTLS)
        groups = [[world.start_shared(cluster, space, numbers, *histories.LATER) for _ in range(servers)]
                  for numbers, servers in sites]
        harm = Harm(cluster, rng, world, dying)

        def stored():
            harm.mend()
            return len(cluster.execute(f'SELECT rev FROM {space}.body'))
        try:
            acts = histories.play(world, turn_at, lambda: world.restart_alone(*histories.LATER), until, stored, groups, harm)
        finally:
            harm.mend()
        histories.check_no_broken(world)
    print(f'   {acts} acts, {time.monotonic() - began:.0f} s', flush=True)


def run(binary, sites_of, dying, **shape):
    check(shared_store.place() is None, 'the lone server keeps its pages itself')
    first, began = histories.seed(), time.monotonic()
    with Cluster(nodes=NODES, **shape) as cluster:
        for n in range(HISTORIES):
            history(binary, cluster, first + n, began + (n + 1) * STEPS_S, sites_of(cluster), dying)


@scene
def four_servers_on_three_nodes_answer_as_one_with_a_store_of_its_own(binary):
    run(binary, lambda cluster: [(list(cluster.numbers), SERVERS)], range(1, NODES + 1))


@scene
def servers_in_two_data_centres_answer_as_one_with_a_store_of_its_own(binary):
    def sites_of(cluster):
        return [([n for n in cluster.numbers if cluster.datacentre(n) == dc], SERVERS // 2) for dc in ('dc1', 'dc2')]
    # A node that is away takes the quorum of its data centre along.
    run(binary, sites_of, (), datacentres=2)


main()
