"""Goal: an operator sees which jobs wait, and why one of them does; tries them again, gives a type other limits, and takes a
target out of service, without a restart and without a job that is lost.
Method: the real binary on both sides, runners that keep a ledger and answer as the scene says."""
import json
import re
import subprocess
import threading

from change_help import tell_events
from cli import Client
from harness import check, eq, main, scene, wait_until
from reload_help import Reloaded
from sink_help import Sink

RULES = """domains: {{ a.test: {{}}, b.test: {{}} }}
change:
  rules:
    jobs: {{ match: {{ stream: "mediawiki.job.*" }}, effect: job, targets: [{targets}], concurrency: 4{more} }}
    hook: {{ match: {{ stream: t }}, effect: drop }}
"""


def rules(*sinks, more=', retries: 0'):
    return RULES.format(targets=', '.join(f'"{sink.url}/run"' for sink in sinks), more=more)


def job(kind, n, domain='a.test'):
    return {'meta': {'stream': f'mediawiki.job.{kind}', 'domain': domain, 'id': f'{kind}-{n}'}, 'type': kind, 'n': n,
            'page_title': f'P{n}', 'params': {'n': n}}


def numbers(sink):
    return sorted(one['n'] for one in sink.events())


def fails(client, *args, code, says=''):
    done = client(*args)
    eq(done.returncode, code, f'{args}: {done.stderr!r}')
    check(says in done.stderr.decode(), f'{args}: {done.stderr!r}')


def listed(client, *args):
    return {(one['type'], one['domain']): one for one in client.json('jobs', 'ls', *args)}


@scene
def jobs_are_counted_by_type_and_domain_and_explained(binary):
    with Sink() as sink, Reloaded(binary, rules(sink)) as r:
        client = Client(binary, r.server)
        eq((client.json('jobs', 'ls'), client.ok('jobs', 'ls').split()[:2]), ([], ['TYPE', 'DOMAIN']))
        client.ok('change', 'pause', 'jobs')
        tell_events(r.server, *(job('x', n) for n in range(3)), *(job('y', n) for n in range(2)), job('x', 9, 'b.test'))
        wait_until(lambda: sum(one['ready'] for one in listed(client).values()) == 6, 'they wait')
        eq({key: one['ready'] for key, one in listed(client).items()}, {('x', 'a.test'): 3, ('y', 'a.test'): 2, ('x', 'b.test'): 1})
        eq(list(listed(client, '--type', 'x', '--domain', 'b.test')), [('x', 'b.test')])
        eq(listed(client, '--state', 'dead'), {})
        lines = [line.split() for line in client.ok('jobs', 'ls').splitlines()]
        check(['x', 'a.test', '0', '3', '0', '0', '0'] in [line[:7] for line in lines], lines)
        check(all(one['oldest'].endswith('Z') for one in listed(client).values()), listed(client))
        body = {'rule': 'jobs', 'type': 'y'}
        item = r.server.json('POST', '/v1/admin.change.items', body=body).body['items'][0]
        said, = client.json('jobs', 'why', item['id'])
        eq((said['rule'], said['type'], said['why'], json.loads(said['event'])), ('jobs', 'y', 'its rule is paused', job('y', 0)))
        text = client.ok('jobs', 'why', item['id'])
        check('why            its rule is paused\n' in text and 'type           y\n' in text, text)
        fails(client, 'jobs', 'why', '1', code=5, says='no rule has a job 1')
        fails(client, 'jobs', 'why', 'x', code=5, says="x is no item's number, and the event log has no such event")
        eq(client.json('jobs', 'why', 'y-0'), [said], 'by the meta.id of its event')
        eq([one['id'] for one in client.json('change', 'items', 'jobs', '--type', 'y')][0], item['id'])
        fails(client, 'jobs', 'ls', '--state', 'bad', code=2, says='ready, waiting, scheduled or dead')
        lanes = r.server.json('POST', '/v1/admin.change.lanes', body={'rule': 'jobs'}).body
        eq(([(lane['domain'], lane['type'], lane['ready'], lane['running']) for lane in lanes['lanes']], lanes['cut']),
           ([('a.test', 'x', 3, 0), ('a.test', 'y', 2, 0), ('b.test', 'x', 1, 0)], False))
        eq([lane['oldest_at'] for lane in lanes['lanes']], [listed(client)[lane['type'], lane['domain']]['oldest'] for lane in lanes['lanes']])
        client.ok('change', 'resume', 'jobs')
        eq(numbers(sink) if sink.wait(6) else None, [0, 0, 1, 1, 2, 9])
        wait_until(lambda: not listed(client), 'all are done')


@scene
def dead_jobs_are_tried_again(binary):
    broken = [True]
    with Sink(lambda q: (500, {}) if broken[0] else None) as sink, Reloaded(binary, rules(sink)) as r:
        client = Client(binary, r.server)
        tell_events(r.server, *(job('x', n) for n in range(3)), job('y', 3), job('x', 4, 'b.test'))
        wait_until(lambda: sum(one['dead'] for one in listed(client).values()) == 5, 'they are dead')
        broken[0] = False
        before = len(sink.requests)
        items = r.server.json('POST', '/v1/admin.change.items', body={'rule': 'jobs', 'state': 'dead', 'type': 'y'}).body['items']
        eq(client.ok('jobs', 'retry', items[0]['id']), '1 job ready again\n')
        sink.wait(before + 1)
        eq(client.ok('jobs', 'retry', '--domain', 'b.test', '--type', 'x'), '1 job ready again\n')
        sink.wait(before + 2)
        eq([e['n'] for e in sink.events()[before:]], [3, 4])
        eq(client.json('jobs', 'retry'), [{'count': 3}])
        eq(sorted(e['n'] for e in sink.events()[before + 2:]) if sink.wait(before + 5) else None, [0, 1, 2])
        wait_until(lambda: not listed(client), 'all are done')
        eq(client.ok('jobs', 'retry'), '0 jobs ready again\n')
        fails(client, 'jobs', 'retry', items[0]['id'], code=5, says='no rule has a job')
        fails(client, 'jobs', 'retry', '1', '--type', 'x', code=2)


@scene
def a_type_has_another_limit_at_once(binary):
    gate = threading.Event()
    more = ', retries: 0, concurrency_of: { type: { y: 3 } }'
    with Sink(lambda q: gate.wait(60) and None) as sink, Reloaded(binary, rules(sink, more=more)) as r:
        client = Client(binary, r.server)
        eq(client.ok('jobs', 'limit', 'x', '1'), 'x runs 1 at once, until the server starts again\n')
        tell_events(r.server, *(job('x', n) for n in range(6)), *(job('y', n) for n in range(6)))
        wait_until(lambda: {key[0]: one['running'] for key, one in listed(client).items()} == {'x': 1, 'y': 3}, 'the limit holds')
        shown, = client.json('change', 'show', 'jobs')
        eq((shown['limit']['types'], shown['override']), ({'x': 1}, False), 'the limit of the rule is its own')
        text = client.ok('change', 'show', 'jobs')
        check('  of type      x: 1 at once, by jobs limit\n' in text and 'by change limit' not in text, text)
        eq((shown['concurrency_of'], shown['retries'], shown['backoff']), ({'type': {'y': 3}, 'domain': {}, 'target': {}}, 0, '1m'))
        check('  of           type y: 3 at once\n' in text and 'retries        0, after 1m, each wait 6 times as long\n' in text, text)
        eq(client.ok('jobs', 'limit', 'x', '--reset', '--rule', 'jobs'), 'x has the limits of its rule again\n')
        eq(client.json('change', 'show', 'jobs')[0]['limit']['types'], {})
        gate.set()
        sink.wait(12)
        fails(client, 'jobs', 'limit', 'x', '1', '--rule', 'hook', code=5, says='no such rule')
        for args in (('x',), ('x', '1', '--reset'), ('x', '0'), ('x', 'many')):
            fails(client, 'jobs', 'limit', *args, code=2)


@scene
def a_target_is_drained_and_comes_back(binary):
    with Sink() as one, Sink() as other, Reloaded(binary, rules(one, other)) as r:
        client = Client(binary, r.server)
        name = one.url[len('http://'):]
        eq(client.ok('jobs', 'drain', name), f'{name} gets no more work; what runs there comes to its end\n')
        tell_events(r.server, *(job('x', n) for n in range(20)))
        eq((numbers(other) if other.wait(20) else None, one.requests), (list(range(20)), []))
        target, = (t for t in client.json('change', 'show', 'jobs')[0]['targets'] if t['name'] == name)
        eq(target['drained'], True)
        undone, = client.json('jobs', 'drain', name, '--undo')
        eq((undone['target'], undone['drained'], undone['was']['drained'], undone['was']['paused_until']), (name, False, True, None))
        eq(client.ok('jobs', 'drain', name, '--undo'), f'{name} was neither drained nor paused: it gets work as before\n')
        other_name = other.url[len('http://'):]
        client.ok('jobs', 'drain', other_name)
        tell_events(r.server, job('x', 20))
        eq(numbers(one) if one.wait(1) else None, [20])
        client.ok('jobs', 'drain', name)
        tell_events(r.server, job('x', 21))
        wait_until(lambda: listed(client), 'it waits')
        item = r.server.json('POST', '/v1/admin.change.items', body={'rule': 'jobs'}).body['items'][0]
        said, = client.json('jobs', 'why', item['id'])
        eq((said['state'], said['running'], said['attempts']), ('ready', False, 0))
        check(said['why'] in [f'its target {one_of} is drained' for one_of in (name, other_name)], said['why'])
        client.ok('jobs', 'drain', other_name, '--undo')
        eq(numbers(other) if other.wait(21) else None, [*range(20), 21])
        fails(client, 'jobs', 'drain', 'nobody:80', code=5)


@scene
def a_job_whose_target_wants_to_be_left_alone_says_why(binary):
    away = [True]
    with Sink(lambda q: (503, {'Retry-After': '3600'}) if away[0] else None) as sink, Reloaded(binary, rules(sink)) as r:
        client = Client(binary, r.server)
        name = sink.url[len('http://'):]
        tell_events(r.server, job('x', 1))

        def paused():
            target, = client.json('change', 'show', 'jobs')[0]['targets']
            return target['paused_until'] is not None and target
        target = wait_until(paused, 'it is left alone')
        eq((target['name'], target['running'], target['drained']), (name, 0, False))
        check('503' in target['last_error'], target)
        item = r.server.json('POST', '/v1/admin.change.items', body={'rule': 'jobs'}).body['items'][0]
        said, = client.json('jobs', 'why', item['id'])
        check(re.fullmatch(rf'its target {name} is left alone for 59m[0-9]+s more: {target["last_error"]}', said['why']), said['why'])
        explained, = client.json('change', 'explain', 'x-1')
        check(name in explained['rules'][0]['item']['why'], explained)
        check(name in client.ok('change', 'show', 'jobs'), 'shown')
        not_retried = ': it is neither dead nor scheduled; change why ID says what it waits for\n'
        eq(client.ok('jobs', 'retry', item['id']), '0 jobs ready again' + not_retried)
        eq(client.ok('change', 'retry', 'jobs', item['id']), '0 items ready again' + not_retried)
        away[0] = False
        opened = client.ok('jobs', 'drain', name, '--undo')
        check(re.fullmatch(rf'{name} gets work again; it was paused until 20[0-9TZ:.-]+: {target["last_error"]}\n', opened), opened)
        sink.wait(2)
        wait_until(lambda: not listed(client), 'it is done')


@scene
def jobs_are_followed_with_a_right_of_their_own(binary):
    with Sink() as sink, Reloaded(binary, rules(sink)) as r:
        tell_events(r.server, job('x', 1))
        tail = subprocess.Popen([binary, 'change', 'tail', '--since', '1h', '--stream', 'mediawiki.job.*'], stdout=subprocess.PIPE,
                                env=Client(binary, r.server).env, text=True)
        with tail:
            eq(tail.stdout.readline().split('\t')[1:], ['mediawiki.job.x', 'a.test', 'P1', '-', 'x\n'])
            tail.terminate()


main()
