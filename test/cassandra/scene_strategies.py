"""The strategies of bench/strategies on a real node, each through a short trace: the oracle has
nothing to say against those that keep what they promise, and finds the published faults of the
others. The requests that each tells of are those that the proxy sees."""
import json
import subprocess

import rig
from rig import check, eq, keyspace, main, node, scene

from proxy import Proxy

TIMEOUT = 120
TITLES = 2
TRACE = ('creations=24', f'titles={TITLES}', 'days=8', 'seed=4', 'count=1')
DUTIES = ('latest', 'recent', 'late', 'asked', 'corner')
OPS = ('put', 'cull', 'keep', 'read_latest', 'read_named')


def run(binary, variant, *options):
    """What the program says of its run."""
    cluster = node()
    with Proxy(cluster.address(1), cluster.port) as proxy:
        done = subprocess.run(
            [rig.built(binary, 'bench/cql_strategies'), f'{proxy.host}:{proxy.port}', 'dc1',
             keyspace(cluster, 'strategies'), variant, *TRACE, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        check(done.returncode == 0, f'{variant}: {done.stdout} {done.stderr}')
        counts = proxy.counts()
    seen = json.loads(done.stdout)
    looks = sum(n for text, n in counts['statements'].items() if 'COUNT(*)' in text)
    wire = counts['requests']['EXECUTE'] + counts['requests']['BATCH'] - looks
    eq(wire, sum(seen[op]['requests'] for op in OPS))
    eq(dict(counts['errors']), {})
    eq(seen['mixed'], 0)
    return seen


def wrong(seen, *duties):
    return sum(seen[duty]['missing'] + seen[duty]['other'] for duty in duties)


@scene
def ours_answers_all_that_it_has_to(binary):
    seen = run(binary, 'ours')
    for duty in ('latest', 'recent', 'late', 'asked'):
        check(seen[duty]['asked'] > 0, f'{duty}: the trace asks for none')
    eq(wrong(seen, *DUTIES), 0)
    # A read and a batch; beside the read of a new title its row for listings.
    eq(seen['put']['requests'], 2 * seen['put']['done'] + TITLES)


@scene
def app_ttl_fails_in_its_corner_case_and_with_late_renders(binary):
    seen = run(binary, 'app_ttl')
    eq(wrong(seen, 'latest', 'recent', 'asked'), 0)
    check(wrong(seen, 'corner') > 0, 'the corner case does not hit')
    check(wrong(seen, 'late') > 0, 'no late render is culled with what was superseded before it')
    eq(seen['put']['requests'], seen['put']['done'])                # a batch, of all contents
    seen = run(binary, 'app_ttl_apart')
    eq(seen['put']['requests'], 3 * seen['put']['done'])


@scene
def two_table_copies_what_it_replaces(binary):
    seen = run(binary, 'two_table_latest_hash')
    eq(wrong(seen, 'latest', 'recent', 'late'), 0)
    # For each content a read and three writes; the first of a title replaces nothing.
    eq(seen['put']['requests'], 12 * seen['put']['done'] - 3 * TITLES)
    eq(seen['cull']['requests'], 6 * seen['cull']['done'])


@scene
def write_through_lets_a_render_run_out_before_it_is_superseded(binary):
    seen = run(binary, 'per_query_b_through')
    check(wrong(seen, 'recent') > 0, 'every recent render was there')
    eq(seen['put']['requests'], 9 * seen['put']['done'])


@scene
def a_uuid_as_it_stands_is_in_no_order_of_time(binary):
    eq(wrong(run(binary, 'per_query_a_on_update_dated'), 'latest', 'recent'), 0)
    check(wrong(run(binary, 'per_query_a_raw'), 'latest') > 0, 'the latest was always right')


main()
