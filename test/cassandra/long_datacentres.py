"""Goal: with servers in two data centres, those of one go on while the other is cut off, and afterwards both have all that
was acknowledged in either, and nothing that was purged in either. Method: two nodes in dc1, one in dc2, a server in each; the
nodes of a data centre are stopped (SIGSTOP) while the other server writes and purges; then both servers are asked for all of
it. CENTRES_SEED=N makes the same requests again."""
import contextlib
import os
import random

from rig import Cluster, SceneError, check, eq, main, scene, wait_until

from harness import Server
from served import DOMAIN, PAGE, options, policy, schema

NODES, TITLES = 3, 12
SPACE = 'two_centres'
TOGETHER_S = 240        # until hints were sent, on a slow machine


def sites_of(cluster):
    return {dc: [n for n in cluster.numbers if cluster.datacentre(n) == dc] for dc in ('dc1', 'dc2')}


def replication(cluster):
    return ','.join(f'{dc}={len(nodes)}' for dc, nodes in sites_of(cluster).items())


def words_of(cluster, dc, *more):
    points = ','.join(f'{cluster.address(n)}:{cluster.port}' for n in sites_of(cluster)[dc])
    # The last of an option counts.
    return options(cluster, SPACE, f'store.local_dc={dc}', *more, points=points)


class Ledger:
    def __init__(self):
        self.kept = {}          # (title, rev): (tid, body)
        self.purged = {}        # (title, rev): tid
        self.failed = 0

    def write(self, server, title, rev):
        body = f'<p>{title} {rev}'.encode()
        answer = server.json('PUT', f'{PAGE}/html/{title}/{rev}', body=body)
        if answer.status in (200, 201):
            self.kept[title, rev] = answer.body['tid'], body
        else:
            check(answer.status == 503, f'{title} {rev}: {answer.status} {answer.body}')
            self.failed += 1
        return answer.status

    def purge(self, server, title):
        """Of an older revision, if there is one."""
        revs = sorted(rev for other, rev in self.kept if other == title)[:-1]
        for rev in revs[:1]:
            tid, body = self.kept.pop((title, rev))
            answer = server.request('DELETE', f'{PAGE}/all/{title}/{rev}')
            if answer.status == 204:
                self.purged[title, rev] = tid
            else:       # it may have happened
                check(answer.status == 503, f'purge of {title} {rev} {body}: {answer.status}')
                self.failed += 1

    def wrong(self, server):
        """What it lacks, or gives though it was purged."""
        out = []
        for (title, rev), tid in self.purged.items():
            answer = server.request('GET', f'{PAGE}/html/{title}/{rev}/{tid}')
            if answer.status not in (404, 410):
                out.append((title, rev, 'purged', answer.status))
        for (title, rev), (tid, body) in self.kept.items():
            answer = server.request('GET', f'{PAGE}/html/{title}/{rev}/{tid}')
            if (answer.status, answer.body) != (200, body):
                out.append((title, rev, answer.status))
        for title in {title for title, _ in self.kept}:
            last = max(rev for other, rev in self.kept if other == title)
            answer = server.request('GET', f'{PAGE}/html/{title}')
            if answer.status != 200 or int(answer.body.split()[1]) < last:
                out.append((title, last, answer.status, answer.body[:40]))
        return out

    def settles(self, server, dc):
        try:
            wait_until(lambda: not self.wrong(server), f'{dc} has all', timeout=TOGETHER_S, pause=2)
        except SceneError as error:
            raise SceneError(f'{error}: {self.wrong(server)}') from None


@scene
def one_data_centre_goes_on_and_both_have_all_afterwards(binary):
    seed = int(os.environ.get('CENTRES_SEED') or random.SystemRandom().randrange(1 << 32))
    print(f'   CENTRES_SEED={seed}', flush=True)
    rng, ledger = random.Random(seed), Ledger()
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(nodes=NODES, datacentres=2))
        sites = sites_of(cluster)
        eq({dc: len(nodes) for dc, nodes in sites.items()}, {'dc1': 2, 'dc2': 1})
        cluster.execute(f'DROP KEYSPACE IF EXISTS {SPACE}')
        done = schema(binary, cluster, SPACE, '--set', f'store.replication={replication(cluster)}')
        eq(done.returncode, 0, done.stderr)
        done = policy(binary, cluster, SPACE, 'apply')
        eq(done.returncode, 0, done.stderr)
        at = {dc: stack.enter_context(Server(binary, '--domain', DOMAIN, *words_of(cluster, dc, 'hot_ttl=0', 'write_timeout=5s')))
              for dc in sites}
        rev = 0
        for title in range(TITLES):
            rev += 1
            eq(ledger.write(at[rng.choice(('dc1', 'dc2'))], f'T{title}', rev), 201)
        for away, stays in (('dc2', 'dc1'), ('dc1', 'dc2')):
            for n in sites[away]:
                cluster.stop(n)
            acknowledged = 0
            for title in rng.sample(range(TITLES), TITLES):
                rev += 1
                acknowledged += ledger.write(at[stays], f'T{title}', rev) == 201
                if rng.random() < 0.3:
                    ledger.purge(at[stays], f'T{title}')
                if rng.random() < 0.3:
                    answer = at[stays].request('GET', f'{PAGE}/html/T{title}')
                    check(answer.status in (200, 503), f'{answer.status}')
            check(acknowledged > TITLES / 2, f'{stays} goes on without {away}: {acknowledged} of {TITLES}')
            rev += 1
            eq(ledger.write(at[away], 'T0', rev), 503, f'the server of {away}')
            for n in sites[away]:
                cluster.cont(n)
            for dc in sites:
                ledger.settles(at[dc], dc)
        print(f'   {len(ledger.kept)} acknowledged, {len(ledger.purged)} purged, {ledger.failed} refused, the same in both')


main()
